"""More goals over four more registries, with descriptions only, in the words in which people ask for things.

Negations, lists, conditions, orders, pronouns, two verbs for one noun. What is right is what a person who knows only
the descriptions would give to whom; where that person would hesitate, the plan has to say so.
"""

from __future__ import annotations

from typing import Final

from tests.tasks.planning.held_out_goals import Held

OFFICE: Final = {
    "ann": "Interviews candidates and checks references",
    "ben": "Orders laptops and sets up accounts",
    "cat": "Drafts job offers and contracts",
    "dot": "Organises the first day and books meeting rooms",
    "eli": "Answers questions about holidays and pay",
    "flo": "Removes accounts and collects laptops",
}
STUDIO: Final = {
    "k1": "Transcribes interviews",
    "k2": "Cuts and mixes audio",
    "k3": "Writes show notes and headlines",
    "k4": "Uploads episodes and schedules posts",
    "k5": "Checks facts and sources",
    "k6": "Designs cover images",
}
RELEASES: Final = {
    "m1": "Compiles the project and resolves dependencies",
    "m2": "Lints and formats source files",
    "m3": "Measures test coverage",
    "m4": "Builds container images and pushes them to the registry",
    "m5": "Applies database migrations",
    "m6": "Announces releases in the chat",
}
ORDERS: Final = {
    "p1": "Charges credit cards and refunds payments",
    "p2": "Reserves stock in the warehouse",
    "p3": "Ships parcels and tracks deliveries",
    "p4": "Sends emails and text messages to customers",
    "p5": "Answers questions of customers",
    "p6": "Screens orders for fraud",
}

FURTHER_GOALS: Final[tuple[tuple[dict[str, str], tuple[Held, ...]], ...]] = (
    (
        OFFICE,
        (
            Held(
                "Interview the candidate, check the references and then draft an offer",
                {"ann": (), "cat": ("ann",)},
            ),
            Held(
                "Once the offer is drafted, order a laptop and book a meeting room",
                {"cat": (), "ben": ("cat",), "dot": ("cat",)},
            ),
            Held("Do not order a laptop; set up an account only", {"ben": ()}),
            Held("Organise the first day, but first set up the account", {"ben": (), "dot": ("ben",)}),
            Held("Remove the account and collect the laptop", {"flo": ()}),
            Held("Answer my question about the holidays", {"eli": ()}),
            Held("Draft an offer unless the references are bad", {"cat": ()}),
            Held("Book a room and draft a contract", {"dot": (), "cat": ()}),
            Held("Booking a room is unnecessary; draft the contract", {"cat": ()}),
            Held("Water the flowers", {}),
        ),
    ),
    (
        STUDIO,
        (
            Held(
                "Transcribe the interview, cut the audio and write the show notes",
                {"k1": (), "k2": (), "k3": ()},
            ),
            Held("Check the facts before uploading the episode", {"k5": (), "k4": ("k5",)}),
            Held("Write a headline and design a cover image for it", {"k3": (), "k6": ("k3",)}),
            Held("Mix the audio; don't upload it", {"k2": ()}),
            Held("Transcribe it and then write notes from the transcript", {"k1": (), "k3": ("k1",)}),
            Held("Translate the show notes", {"k3": ()}, unsure=True),
            Held("Edit the audio", {"k2": ()}, unsure=True),
            Held("Upload nothing, only verify the sources", {"k5": ()}),
            Held("1. cut the audio\n2. upload the episode", {"k2": (), "k4": ("k2",)}),
            Held("Upload the episode, but first check the facts", {"k5": (), "k4": ("k5",)}),
        ),
    ),
    (
        RELEASES,
        (
            Held(
                "Lint the sources, compile the project, measure the coverage, build an image, announce the release",
                {"m2": (), "m1": (), "m3": (), "m4": (), "m6": ()},
            ),
            Held("Push the image, except to production", {"m4": ()}),
            Held("Neither compile nor lint: just measure the coverage", {"m3": ()}),
            Held("Compile and lint the project", {"m1": (), "m2": ("m1",)}),
            Held("Format the code, then build it", {"m2": (), "m4": ("m2",)}),
            Held("Announce the release after pushing the image", {"m4": (), "m6": ("m4",)}),
            Held("Migrate the database", {"m5": ()}),
            Held("Publish the container", {"m4": ()}, unsure=True),
            Held("Pushing the image is forbidden, so measure the coverage", {"m3": ()}),
            Held("Build an image & announce the release", {"m4": (), "m6": ()}),
        ),
    ),
    (
        ORDERS,
        (
            Held(
                "Charge the customer's card, reserve the stock, then ship the parcel and email the customer",
                {"p1": (), "p2": (), "p3": ("p1", "p2"), "p4": ("p1", "p2")},
            ),
            Held("Don't ship the parcel; refund the payment instead", {"p1": ()}),
            Held(
                "Screen the order, charge the card unless it is fraudulent, and ship it",
                {"p6": (), "p1": ("p6",), "p3": ("p6", "p1")},
            ),
            Held("Screen the order and, if it is clean, charge the card", {"p6": (), "p1": ("p6",)}),
            Held("Neither charge the card nor ship the parcel, only reserve the stock", {"p2": ()}),
            Held("Track the delivery and notify the customer", {"p3": (), "p4": ()}),
            Held("Ship it without emailing the customer", {"p3": ()}),
            Held("Ship the parcel, but do not email the customer, then charge the card", {"p3": (), "p1": ("p3",)}),
            Held("Either refund the payment or ship the parcel", {"p1": ()}, unsure=True),
        ),
    ),
)
