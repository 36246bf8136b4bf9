"""The reviewer and the synthesizer that are models, and the synthesizers that are not."""
