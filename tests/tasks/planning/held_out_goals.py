"""Forty goals over four registries of workers that say nothing but a description; the ids say nothing either.

Written before the planner was changed for rule S15, and never used to tune it: ``test_held_out_goals`` says how many
come out right. What is right is what a person who knows only the descriptions would give to whom.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Held(NamedTuple):
    """A goal, and what is right for it."""

    goal: str
    who: dict[str, tuple[str, ...] | None]
    """Workers that have something to do, with those that they wait for; None: either way is right. Nobody: an error."""
    unsure: bool = False
    """True where the one who has it may be another of ``who``, and the plan has to say that it is not sure."""


CODE: Final = {
    "ada": "Investigates libraries and compares alternatives",
    "bob": "Writes and fixes Python code",
    "cyd": "Reviews implementations for bugs and style",
    "dan": "Runs the test suite and reports failures",
    "eve": "Releases packages and deploys services",
    "fay": "Looks up pages of the documentation",
}
FIGURES: Final = {
    "n1": "Downloads and imports spreadsheets and CSV files",
    "n2": "Removes duplicates and corrects wrong values",
    "n3": "Analyses figures and measures trends",
    "n4": "Draws charts of the figures",
    "n5": "Summarises findings in a short report",
    "n6": "Sends messages to customers",
}
TEAMS: Final = {
    "north": "User interfaces: React components, forms and pages",
    "south": "Services, databases and APIs",
    "east": "Tests features and integrations end to end",
    "west": "Documentation: manuals and tutorials",
}
TRAVEL: Final = {
    "t1": "Finds flights and trains",
    "t2": "Books hotels and apartments",
    "t3": "Charges credit cards and refunds payments",
    "t4": "Tells the weather forecast for a city",
    "t5": "Translates texts between languages",
    "t6": "Recommends restaurants and museums",
}

GOALS: Final[tuple[tuple[dict[str, str], tuple[Held, ...]], ...]] = (
    (
        CODE,
        (
            Held(
                "Investigate vector databases, implement a prototype and review it",
                {"ada": (), "bob": (), "cyd": ("ada", "bob")},
            ),
            Held("Compare FastAPI and Flask, then build a small service", {"ada": (), "bob": ("ada",)}),
            Held("Write a parser but do not deploy it", {"bob": ()}),
            Held(
                "Fix the bug in the tokenizer, test it, and release it",
                {"bob": (), "dan": ("bob",), "eve": ("bob", "dan")},
            ),
            Held("Look up the signature of asyncio.gather", {"fay": ()}),
            Held("Check the code for race conditions", {"cyd": ()}),
            Held("Code a command line tool and verify it", {"bob": (), "cyd": ("bob",)}),
            Held("Run the tests, then deploy the service", {"dan": (), "eve": ("dan",)}),
            Held("Don't write any code, only investigate which library is fastest", {"ada": ()}),
            Held("Audit the payment module and look up the docs of its dependencies", {"cyd": (), "fay": None}),
        ),
    ),
    (
        FIGURES,
        (
            Held(
                "Download the spreadsheet, then correct wrong values, then draw a chart",
                {"n1": (), "n2": ("n1",), "n4": ("n2",)},
            ),
            Held("Analyse the figures and summarise the findings", {"n3": (), "n5": ("n3",)}),
            Held("Send the customers a message", {"n6": ()}),
            Held("Summarise the customers' messages", {"n5": ()}),
            Held(
                "Measure the trend of the last year, chart it and mail it to the customers",
                {"n3": (), "n4": ("n3",), "n6": ("n3", "n4")},
            ),
            Held("Draw the figures without sending anything", {"n4": ()}),
            Held("Never mail customers; remove duplicates", {"n2": ()}),
            Held("Import the orders, the invoices and the returns", {"n1": ()}),
            Held("Write a short report and send it", {"n5": (), "n6": ("n5",)}),
            Held("Fly to the moon", {}),
        ),
    ),
    (
        TEAMS,
        (
            Held(
                "Build the React page, create the database tables, then test the integration",
                {"north": (), "south": (), "east": ("north", "south")},
            ),
            Held("Add an API for invoices and a form for it", {"south": (), "north": ("south",)}),
            Held("Write a tutorial about forms", {"west": ()}),
            Held("Test the forms and pages", {"east": ()}),
            Held("Document the API, but don't change the database", {"west": ()}),
            Held("Design the pages, the forms and the components", {"north": ()}),
            Held("Migrate the database and test the migration", {"south": (), "east": None}),
            Held("Create a service that tests features", {"south": ()}),
            Held("Neither the forms nor the pages need work; write the manual", {"west": ()}),
            Held("Write services and forms, then tutorials", {"south": (), "north": (), "west": ("south", "north")}),
        ),
    ),
    (
        TRAVEL,
        (
            Held("Find a train to Paris and book a hotel", {"t1": (), "t2": ()}),
            Held("Book a flight", {"t1": (), "t2": ()}, unsure=True),
            Held("Translate the menu and recommend a restaurant", {"t5": (), "t6": ()}),
            Held("Tell me the weather in Rome", {"t4": ()}),
            Held("Refund the payment, then cancel the hotel", {"t3": (), "t2": ("t3",)}),
            Held("Charge the card only, do not book anything", {"t3": ()}),
            Held("Find a hotel", {"t1": (), "t2": ()}, unsure=True),
            Held(
                "Find flights to Lisbon, check the weather there and charge my credit card",
                {"t1": (), "t4": (), "t3": ()},
            ),
            Held("Translate this letter into French, then into German", {"t5": None}),
            Held("Wie wird das Wetter in Rom?", {}),
        ),
    ),
)
