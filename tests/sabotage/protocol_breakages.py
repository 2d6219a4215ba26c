"""The rules of the source documents in place of the corrected ones, in the protocols that move single keys.

The docstrings of `protocols/damion.py` and `icadd.py` say what each rule is for. Where a machine asserts a corrected rule, the
breakage leaves that assertion out too, so that the harm is found and not only the deviation.
"""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

DAMION, ICADD = "protocols/damion.py", "protocols/icadd.py"
DAMION_MESSAGES = "protocols/damion_messages.py"
DAMION_WORLDS = "tests/simulator/protocols/test_damion.py::test_records_and_states_are_whole_in_every_world"
ICADD_WORLDS = (
    "tests/simulator/protocols_icadd/test_icadd.py::test_every_record_is_processed_once_in_order_and_where_its_state_is"
)
TEST_SCHEDULES = "tests/simulator/protocols_icadd/test_schedules.py"
SCHEDULES = f"{TEST_SCHEDULES}::test_the_corrected_rules_stand"
ONE_OWNER, ORDER = "7 one owner", "a key's records keep their order"

DRIVERS = "tests/protocols/test_planners.py::test_every_slot_that_has_another_owner_moves_once"

MIGRATION = (
    Breakage(
        "state-not-waited-for",
        "The driver of Damion's protocol lets a state arrive before the engine has moved the slots.",
        ONE_OWNER,
        (
            Edit(
                "protocols/damion_planner.py",
                "                self._states.append((to, message))\n",
                "                self._states.append((to, message))\n                self._posted.append((name, to, message))\n",
            ),
        ),
        (DRIVERS,),
    ),
    Breakage(
        "keys-listed-while-records-flow",
        "D1: with explicit sets, records go to the old owner until its sets come, though it lists its keys meanwhile.",
        ONE_OWNER,
        (
            Edit(
                DAMION,
                "            case Naming.EXPLICIT:\n                return None\n",
                "            case Naming.EXPLICIT:\n                return self.assignment.owner(key)\n",
            ),
        ),
        (DAMION_WORLDS,),
    ),
    Breakage(
        "states-passed-on-by-everybody",
        "D2: the old owner gives the states to all distributors. Each passes them on, and waits for no answer.",
        ONE_OWNER,
        (
            Edit(
                DAMION_MESSAGES,
                "    given: Keys\n    following: Keys\n",
                "    given: Keys\n    following: Keys\n    states: tuple[tuple[str, State], ...]\n",
            ),
            Edit(
                DAMION,
                "            *(Send(target, state) for target, state in self._by_target(reassignment, keys, parts).items()),\n"
                "            *self._to_distributors(Redistribute(reassignment.number, self.instance, keys, following)),\n",
                "            *self._to_distributors(\n"
                "                Redistribute(\n"
                "                    reassignment.number,\n"
                "                    self.instance,\n"
                "                    keys,\n"
                "                    following,\n"
                "                    tuple(self._by_target(reassignment, keys, parts).items()),\n"
                "                )\n"
                "            ),\n",
            ),
            Edit(
                DAMION,
                "        return [*self._take_into_hold(message.giver, message.following), *self._go_on()]\n",
                "        rule.hold = rule.hold.minus(message.given)\n"
                "        passed: list[Instruction] = [Send(target, state) for target, state in message.states]\n"
                "        return [*passed, *self._take_into_hold(message.giver, message.following), *self._go_on()]\n",
            ),
            Edit(
                DAMION,
                '        assert not twice, f"{self.name}: the state of keys {twice} comes from {message.giver}, and is there"\n',
                "",
            ),
            Edit(
                DAMION,
                "        return [*installs, *self._to_distributors(Installed(message.reassignment, message.giver, message.keys))]\n",
                "        return installs\n",
            ),
        ),
        (DAMION_WORLDS,),
    ),
    Breakage(
        "first-operator-names-alone",
        "D3: only the first operator of a chain names its keys, and those of later ones are in no set.",
        ONE_OWNER,
        (
            Edit(
                DAMION,
                "        named = Explicit(before.keys | self._named_here(reassignment, states))\n",
                "        named = before if self.position else Explicit(self._named_here(reassignment, states))\n",
            ),
        ),
        (DAMION_WORLDS,),
    ),
    Breakage(
        "sets-of-another-owner-obeyed",
        "D4: the sets of any old owner decide over the keys of all.",
        ONE_OWNER,
        (
            Edit(
                DAMION,
                "        if not rule.has_sets:\n            return self._place_before_sets(key)\n",
                "        if not any(each.has_sets for each in self.rules.values()):\n"
                "            return self._place_before_sets(key)\n",
            ),
        ),
        (DAMION_WORLDS,),
    ),
    Breakage(
        "done-without-echo",
        "I1: after a Done, records that are still on their detour are not waited for.",
        ORDER,
        (
            Edit(
                ICADD,
                "        self._out.append(Send(sender, Probe(self.version)))\n",
                "        self.closed.add(sender)\n",
            ),
        ),
        (ICADD_WORLDS, f"{SCHEDULES}[I1]"),
    ),
    Breakage(
        "taken-and-not-listed",
        "I2: a record that a worker has to take because of its version brings a key that nobody lists.",
        ONE_OWNER,
        (
            Edit(
                ICADD,
                "            if self.phase is Phase.INTERROGATE:\n                self._list(routed)\n",
                "            if self.phase is Phase.INTERROGATE and routed.version <= self.version:\n"
                "                self._list(routed)\n",
            ),
        ),
        (ICADD_WORLDS, f"{SCHEDULES}[I2]"),
    ),
    Breakage(
        "detour-before-the-marker",
        "I3: a detoured record is returned or processed before the marker of its origin has come.",
        ORDER,
        (Edit(ICADD, "        if self._awaits_marker(routed, sender):\n", "        if False:\n"),),
        (ICADD_WORLDS, f"{SCHEDULES}[I3]"),
    ),
    Breakage(
        "only-returns-await-the-marker",
        "ICADD: a detoured record waits for the marker only if it is returned. It is processed at once if its key is here.",
        ORDER,
        (
            Edit(
                ICADD,
                "        return detoured and routed.version > self.settled and origin not in self.markers\n",
                "        key = routed.record.key\n"
                "        is_here = self.phase in (Phase.SETTLED, Phase.INTERROGATE) or key in {*self.whitelist, *self.hold}\n"
                "        return detoured and not is_here and routed.version > self.settled and origin not in self.markers\n",
            ),
        ),
        (ICADD_WORLDS, f"{SCHEDULES}[a known key]"),
    ),
    Breakage(
        "done-before-the-markers",
        "ICADD: Done waits for no marker, and only the end of the change waits for them all.",
        ORDER,
        (
            Edit(ICADD, "        return self.markers >= reassignment.members\n", "        return not self.early\n"),
            Edit(
                ICADD,
                "            if self.phase is Phase.DONE and self.closed >= self.reassignment.old:\n",
                "            if self.phase is Phase.DONE and self.closed >= self.reassignment.old"
                " and self.markers >= self.reassignment.members:\n",
            ),
            Edit(
                ICADD,
                "                assert self._has_given_all() and not self.early, ",
                "                assert self._has_given_all(), ",
            ),
        ),
        (ICADD_WORLDS, f"{SCHEDULES}[done]"),
    ),
    Breakage(
        "taken-from-anybody",
        "ICADD: a record of a higher version is taken from any worker, even if the state of its key is on a third one.",
        ONE_OWNER,
        (
            Edit(
                ICADD,
                "        return routed.version > self.version and sender == self.route(routed.record.key)\n",
                "        return routed.version > self.version\n",
            ),
        ),
        (ICADD_WORLDS, f"{SCHEDULES}[a third party]"),
    ),
    Breakage(
        "forwarded-with-own-version",
        "ICADD: a worker that forwards a record puts its own version on it, though the record's is higher.",
        ORDER,
        (
            Edit(
                ICADD,
                "replace(routed, version=max(routed.version, self.version))",
                "replace(routed, version=self.version)",
            ),
        ),
        (ICADD_WORLDS, f"{SCHEDULES}[versions]"),
    ),
    Breakage(
        "done-before-the-drops",
        "ICADD: Done does not wait until the operators have dropped on all lanes what was sent away.",
        ONE_OWNER,
        (
            Edit(
                ICADD,
                "        return not self.whitelist and not self.hold and not self.undropped\n",
                "        return not self.whitelist and not self.hold\n",
            ),
            Edit(
                ICADD,
                "                self.undropped[answer.key].remove(answer.lane)\n"
                "                if not self.undropped[answer.key]:\n"
                "                    del self.undropped[answer.key]\n",
                "                self.undropped.get(answer.key, set()).discard(answer.lane)\n"
                "                if not self.undropped.get(answer.key):\n"
                "                    self.undropped.pop(answer.key, None)\n",
            ),
            Edit(
                ICADD,
                "        for forgotten in (self.given, self.markers, self.finished, self.closed):\n",
                "        self.undropped.clear()\n"
                "        for forgotten in (self.given, self.markers, self.finished, self.closed):\n",
            ),
        ),
        (f"{TEST_SCHEDULES}::test_done_waits_until_every_lane_has_dropped",),
    ),
)
