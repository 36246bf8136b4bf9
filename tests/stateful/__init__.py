"""Stateful models: a real tree and a picture of it do the same, and must look the same after every step."""
