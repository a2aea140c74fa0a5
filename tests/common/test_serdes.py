

def test_json_keeps_integers_of_any_size() -> None:
    assert Serdes.json().deserialize(b'{"id":18446744073709551617}') == {"id": 2**64 + 1}
