"""``Serdes.json(Type)``: values that are read are of the type, and values that are written can be read again."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar
from uuid import UUID

import msgspec
import numpy
import pytest
from pydantic import BaseModel, Field
from ray import cloudpickle

from penstock.common.errors import SerializationError, TopologyError
from penstock.common.serdes import Serde, Serdes

T = TypeVar("T")
pickler: Any = cloudpickle  # Ray's has no types


class Mood(Enum):
    CALM = "calm"


@dataclass
class Item:
    name: str
    price: float = 0.0


@dataclass
class Order:
    id: UUID
    at: datetime
    items: list[Item]
    by_day: dict[date, int] = field(default_factory=dict)
    total: Decimal = Decimal(0)
    mood: Mood = Mood.CALM
    tags: set[str] = field(default_factory=set)
    place: tuple[int, int] = (0, 0)
    next: Order | None = None


class Typed(TypedDict):
    n: int


class Named(NamedTuple):
    x: int
    y: int


@dataclass
class Box(Generic[T]):
    value: T


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


class Address(BaseModel):
    street: str


class User(BaseModel):
    user_id: int = Field(alias="userId")
    address: Address
    score: float | None = None


@dataclass
class Holder:
    user: User


ORDER = Order(UUID(int=1), datetime(2026, 1, 1, tzinfo=UTC), [Item("tea", 2.5)], {date(2026, 1, 1): 2}, tags={"a"})
USER = User(userId=1, address=Address(street="s"))
VALUES: list[tuple[Any, Any]] = [
    (Order, ORDER),
    (Order, Order(UUID(int=2), ORDER.at, [], next=ORDER)),
    (Typed, {"n": 1}),
    (Named, Named(1, 2)),
    (Cat, Cat(9)),
    (Cat | Dog, Dog("rex")),
    (list[Cat | Dog], [Cat(1), Dog("a")]),
    (int, 7),
    (float, 0.5),
    (str, "a"),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (frozenset[str], frozenset("a")),
    (dict[int, Item], {1: Item("a")}),
    (Sequence[int], [1]),
    (Mapping[str, Item], {"a": Item("b")}),
    (int | None, 3),
    (datetime, ORDER.at),
    (UUID, UUID(int=3)),
    (Decimal, Decimal("1.50")),
    (Mood, Mood.CALM),
    (bytes, b"\xff"),
    (dict, {"a": [1, None]}),
    (list, [1]),
    (dict[str, Any], {"a": {"b": [1.5]}}),
    (Box[int], Box(1)),
    (Annotated[int, "cents"], 3),
    (Literal["a", "b"], "a"),
    (User, USER),
    (list[User], [USER]),
    (dict[str, User], {"a": USER}),
    (User | None, USER),
    (Holder, Holder(USER)),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda each: str(each)[:40])
def test_a_value_comes_back_as_it_was_and_so_it_does_with_a_serde_that_travelled(kind: Any, value: Any) -> None:
    serde = Serdes.json(kind)
    for each in (serde, pickler.loads(pickler.dumps(serde)), pickle.loads(pickle.dumps(serde))):
        back = each.deserialize(each.serialize(value))
        assert (back, type(back)) == (value, type(value))


def test_the_form_is_compact_json() -> None:
    assert Serdes.json(Item).serialize(Item("tea", 2.5)) == b'{"name":"tea","price":2.5}'
    assert Serdes.json(User).serialize(USER) == b'{"userId":1,"address":{"street":"s"},"score":null}'


def test_a_class_of_a_program_travels_with_its_serde() -> None:
    @dataclass
    class Local:
        n: int

    class LocalMood(Enum):
        CALM = "calm"

    class LocalTyped(TypedDict):
        n: int

    class LocalNamed(NamedTuple):
        n: int

    for kind, data in [(LocalMood, b'"calm"'), (Local, b'{"n":1}'), (LocalTyped, b'{"n":1}'), (LocalNamed, b"[1]")]:
        serde: Serde[Any] = Serdes.json(kind)
        value = serde.deserialize(data)
        assert serde.serialize(value) == data
        copy = pickler.loads(pickler.dumps((serde, lambda kind=kind: kind)))[0]
        assert repr(copy.deserialize(data)) == repr(value)


def test_the_serdes_of_one_type_are_equal_and_named_after_it() -> None:
    assert Serdes.json(Item) == Serdes.json(Item)
    assert len({Serdes.json(Item), Serdes.json(Item), Serdes.json(Order)}) == 2
    assert repr(Serdes.json(Item)) == "Serde(json(Item))"
    assert repr(Serdes.json(list[int])) == "Serde(json(list[int]))"


def test_a_key_given_as_text_is_read_as_json() -> None:
    of_text = Serdes.json(Item).from_text
    assert of_text is not None
    assert of_text('{"name":"tea"}') == Item("tea")


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (Item, b'{"name":1}', "json(Item): Expected `str`, got `int` - at `$.name`"),
        (Item, b'{"price":1.5}', "json(Item): Object missing required field `name`"),
        (Item, b"{", "json(Item): Input data was truncated"),
        (Item, b'{"name":"\xff"}', "json(Item): "),
        (list[Item], b'[{"name":"a"},{"name":2}]', "json(list["),
        (int, b'"7"', "json(int): Expected `int`, got `str`"),
        (Cat | Dog, b'{"type":"Cow"}', "Invalid value 'Cow' - at `$.type`"),
        (User, b'{"userId":"x","address":{}}', "at `$.userId` (and 1 more)"),
        (list[User], b'[{"userId":1,"address":{}}]', "Field required - at `$[0].address.street`"),
        (User, b"{", "json(User): Invalid JSON"),
    ],
)
def test_data_that_does_not_fit_is_refused_with_what_and_where(kind: Any, data: bytes, message: str) -> None:
    with pytest.raises(SerializationError) as refused:
        Serdes.json(kind).deserialize(data)
    assert message in str(refused.value)


@dataclass
class SpecialItem(Item):
    colour: str = "red"


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Item, {"name": "tea"}, "json(Item): {'name': 'tea'} is of type dict"),
        (Item, SpecialItem("tea"), "is of type SpecialItem"),
        (list[int], (1, 2), "is of type tuple"),
        (int, "7", "'7' is of type str"),
        (int, True, "True is of type bool"),
        (Item, numpy.int64(1), "is of type int64"),
        (Item, Item(object()), "there is no JSON form for <object object"),  # type: ignore[arg-type]  # the point
        (Item, Item("tea", float("nan")), "json(Item): nan, which JSON does not have"),
        (list[Item], [Item("tea", float("-inf"))], "-inf, which JSON does not have"),
        (dict[str, float | None], {"a": None, "b": float("nan")}, "nan, which JSON does not have"),
        (dict, {1: 2}, "json(dict): json: value has a key of type int, 1"),
        (list, [(1, 2)], "json(list): json: value[0] is of type tuple"),
        (dict[str, Any], {"a": {1}}, "value['a'] is of type set"),
        (User, {"userId": 1}, "json(User): {'userId': 1} is of type dict"),
        (User, USER.model_copy(update={"user_id": "x"}), "json(User): "),
        (User, USER.model_copy(update={"score": float("inf")}), "inf, which JSON does not have"),
    ],
)
def test_a_value_that_could_not_be_read_again_is_refused(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(SerializationError) as refused:
        Serdes.json(kind).serialize(value)
    assert message in str(refused.value)


def test_numbers_of_numpy_are_written_as_pythons() -> None:
    value = Item("tea", numpy.float32(0.5))  # type: ignore[arg-type]  # numpy's
    assert Serdes.json(Item).serialize(value) == b'{"name":"tea","price":0.5}'
    assert Serdes.json(int).serialize(numpy.int64(3)) == b"3"  # type: ignore[arg-type]  # numpy's
    assert Serdes.json(dict[str, int]).serialize({"a": numpy.int16(3)}) == b'{"a":3}'  # type: ignore[dict-item]


class NoForm:
    pass


@pytest.mark.parametrize("kind", [NoForm, list[NoForm], Cat | Item, "Item", 7, Serde, object])
def test_a_type_without_a_json_form_is_refused_at_once(kind: Any) -> None:
    with pytest.raises(TopologyError, match=r"^Serdes\.json\(.*\): .* can be used(?m:$)"):
        Serdes.json(kind)


def test_an_object_instead_of_its_type_is_refused() -> None:
    given: Any = {"name": "tea"}  # cannot be hashed, as a dataclass that is not frozen
    with pytest.raises(TopologyError, match="unhashable type: 'dict': give the type itself, not an object of it"):
        Serdes.json(given)


@pytest.mark.parametrize("kind", [Item | None, int | None, list[int] | None, Typed | None])
@pytest.mark.parametrize("value", [object(), {1}, "text", SpecialItem("tea"), 1.5])
def test_an_optional_type_takes_no_other_type(kind: Any, value: Any) -> None:
    with pytest.raises(SerializationError, match=f"is of type {type(value).__name__}"):
        Serdes.json(kind).serialize(value)


def test_an_optional_number_may_be_numpys() -> None:
    serde: Serde[Any] = Serdes.json(int | None)
    assert serde.serialize(numpy.int64(3)) == b"3"


@dataclass
class Chain:
    next: Chain | None = None


class Nested(BaseModel):
    next: Nested | None = None


@pytest.mark.parametrize("kind", [Chain, Nested])
def test_a_type_that_holds_itself_is_neither_read_nor_written_beyond_two_hundred_levels(kind: Any) -> None:
    serde = Serdes.json(kind)
    value = kind()
    for _ in range(199):
        value = kind(next=value)
    data = serde.serialize(value)
    assert serde.serialize(serde.deserialize(data)) == data
    for write in (lambda: serde.deserialize(b'{"next":' + data + b"}"), lambda: serde.serialize(kind(next=value))):
        with pytest.raises(SerializationError, match="nested more than 200 deep"):
            write()


@dataclass(frozen=True, order=False)
class Badge:
    name: str


class Colour(Enum):
    RED = "red"
    BLUE = "blue"
    GREEN = "green"


class Struct(msgspec.Struct, frozen=True, rename="camel"):
    all_tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Slotted:
    tags: frozenset[str]


class Badges(NamedTuple):
    whose: str
    badges: frozenset[Badge]


class Labelled(BaseModel, frozen=True):
    labels: set[Colour]
    nested: dict[str, list[frozenset[int]]] = Field(default_factory=dict, alias="in")


def grown(elements: Sequence[Any], kind: Any = set) -> Any:
    """A set that iterates in another order than ``kind(elements)`` usually does: it was larger before."""
    large = {*elements, *range(-5000, 0)}
    return kind(each for each in (large - set(range(-5000, 0))))


@pytest.mark.parametrize(
    ("kind", "made_of", "written"),
    [
        (set[str], lambda order: set(order(["b", "c", "a"])), b'["a","b","c"]'),
        (set[int], lambda order: set(order([10, 9, 2**40])), b"[9,10,1099511627776]"),
        (set[Colour], lambda order: set(order(list(Colour))), b'["blue","green","red"]'),
        (set[int | str | None], lambda order: set(order([1, "a", None])), b'["a",1,null]'),
        (set[frozenset[int]], lambda order: {frozenset(order([3, 2])), frozenset([1])}, b"[[1],[2,3]]"),
        (Slotted, lambda order: Slotted(frozenset(order(["b", "a"]))), b'{"tags":["a","b"]}'),
        (Struct, lambda order: Struct(frozenset(order(["b", "a"]))), b'{"allTags":["a","b"]}'),
        (
            list[Badges],
            lambda order: [Badges("ada", frozenset(map(Badge, order(["x", "yy", "a"]))))],
            b'[["ada",[{"name":"a"},{"name":"x"},{"name":"yy"}]]]',
        ),
        (
            Labelled,
            lambda order: Labelled.model_validate(
                {"labels": set(order(list(Colour))), "in": {"z": [frozenset(order([10, 9])), frozenset()], "a": []}}
            ),
            b'{"labels":["blue","green","red"],"in":{"z":[[9,10],[]],"a":[]}}',
        ),
    ],
)
def test_a_set_is_written_in_one_order_whatever_order_it_iterates_in(
    kind: Any, made_of: Callable[[Callable[[list[Any]], list[Any]]], Any], written: bytes
) -> None:
    serde = Serdes.json(kind)
    for order in (lambda items: items, lambda items: items[::-1], sorted_by_hash, lambda items: list(grown(items))):
        value = made_of(order)
        before = repr(value)
        assert serde.serialize(value) == written
        assert serde.deserialize(written) == value
        assert repr(value) == before, "the value was changed in place"


def sorted_by_hash(items: list[Any]) -> list[Any]:
    return sorted(items, key=hash)


def test_equal_sets_have_equal_bytes() -> None:
    # Hashes of integers are not random: 0 and 8 want the same slot, so a set yields first the one that came first.
    ascending, descending = set[int](), set[int]()
    for number in (0, 8):
        ascending.add(number)
    for number in (8, 0):
        descending.add(number)
    assert list(ascending) != list(descending), "both iterate in the same order: this shows nothing"
    assert Serdes.json(set[int]).serialize(ascending) == Serdes.json(set[int]).serialize(descending)


def test_a_set_of_models_is_refused_with_the_way_out() -> None:
    serde = Serdes.json(set[Labelled])
    with pytest.raises(SerializationError, match=r"a set of models has no order .* use a list, or a field_serializer"):
        serde.serialize({Hashed(labels=set())})


class Hashed(Labelled, frozen=True):
    def __hash__(self) -> int:
        return 0
