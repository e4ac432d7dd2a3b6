"""Parts of sentences."""

from mixseg.core.errors import did_you_mean, enumerated, listed


def test_a_long_list_is_cut_and_says_so():
    assert listed([]) == ""
    assert listed(["a", "b", "c", "d"]) == "a, b, c, d"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c, d, ..."
    assert listed({3: "c", 1: "a"}, most=1) == "3, ..."


def test_a_name_that_is_near_to_none_of_many_gets_a_handful_and_their_number():
    scans = [f"patient{number:03}" for number in range(300)]
    assert did_you_mean("Patient010", scans) == "did you mean 'patient010'?"
    few = "patient000, patient001, patient002, patient003, patient004, ... (300 in all)"
    assert did_you_mean("liver", scans) == f"choose one of {few}."
    assert did_you_mean("liver", ["a", "b", "c", "d", "e", "f"]) == "choose one of a, b, c, d, e, f."


def test_all_of_a_list_ends_with_a_word():
    assert [enumerated("abc"[:count], " and ") for count in range(4)] == ["", "a", "a and b", "a, b and c"]
