"""An event learns: once, shown and consented to, and then again for as long as it is safe."""

import time

from worker.actions.events.learning import School, comment, unsafe
from worker.actions.events.lesson import Proposal
from worker.actions.events.rows import proposal_row
from worker.cli.events.show import print_proposal
from worker.cli.signals import ended_by_sigterm
from worker.cli.terminal import consented, say
from worker.cli.view.table import print_json


def learn_once(school: School, yes: bool, as_json: bool, again: bool = False) -> bool:
    """Show what the event would learn, and publish it on consent; whether all is well."""
    proposal = school.propose()
    comment(proposal)
    danger = unsafe(proposal) if again and yes else ""
    if not as_json:
        print_proposal(proposal)
    agreed = proposal.is_news and not danger and consented(yes, _question(proposal, again))
    if agreed:
        school.publish(proposal)
    elif not proposal.is_news:
        say("nothing new: the profile stays as it is")
    if danger:
        say(f"nothing was published, it would not be safe: {danger}")
    if as_json:
        print_json([proposal_row(proposal, agreed)])
    elif agreed:
        say(f"published: {proposal.profile.id} {proposal.profile.version}")
    return agreed or not (proposal.is_news or danger)


def go_on(school: School, every: float) -> None:
    """Learn again and again, for as long as it is safe; SIGTERM ends it."""
    with ended_by_sigterm():
        while True:
            time.sleep(every)
            proposal = school.propose()
            if danger := unsafe(proposal):
                say(f"stopped, the profile stays as it is: {danger}")
                return
            if proposal.is_news:
                school.publish(proposal)
                read, passes = proposal.comparison.read, proposal.comparison.passes
                said = f"{passes[0]:,} → {passes[1]:,} of {read:,} posts pass"
                say(f"published: {proposal.profile.version}, {said}")


def _question(proposal: Proposal, again: bool) -> str:
    further = ", and those to come while it is safe" if again else ""
    return f"Publish this profile of {proposal.event.name!r}{further}?"
