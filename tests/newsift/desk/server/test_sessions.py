"""Sessions: how long they last, and how many there are."""

from newsift.desk.guard import IDLE_S, MOST_SESSIONS, Sessions


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends_twelve_hours_after_its_last_request() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    first, second = sessions.begin(), sessions.begin()
    assert IDLE_S == 12 * 3600
    clock.now += IDLE_S
    assert sessions.use(first)
    clock.now += 1
    assert sessions.use(first)
    assert sessions.holds(first)
    assert not sessions.use(second)
    clock.now += IDLE_S + 1
    assert not sessions.holds(first)


def test_to_look_at_a_session_does_not_prolong_it() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    session_id = sessions.begin()
    clock.now += IDLE_S
    assert sessions.holds(session_id)
    clock.now += 1
    assert not sessions.use(session_id)


def test_the_session_that_was_used_longest_ago_gives_way() -> None:
    sessions = Sessions()
    ids = [sessions.begin() for _ in range(MOST_SESSIONS)]
    assert len(set(ids)) == MOST_SESSIONS
    assert sessions.use(ids[0])
    sessions.begin()
    assert sessions.holds(ids[0])
    assert not sessions.holds(ids[1])


def test_no_id_is_a_session_that_nobody_began() -> None:
    assert not Sessions().use("")
