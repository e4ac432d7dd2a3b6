"""Parts of sentences."""

from mixseg.errors import listed


def test_a_long_list_is_cut_and_says_so():
    assert listed([]) == ""
    assert listed(["a", "b", "c", "d"]) == "a, b, c, d"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c, d, ..."
    assert listed({3: "c", 1: "a"}, most=1) == "3, ..."
