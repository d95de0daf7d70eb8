"""A second device on a machine that has none: it answers to ``cuda``, and to mix it with the CPU is refused.

Its tensors lie in the machine's own memory and its kernels are the CPU's. So whatever runs there must come out as it
does on the CPU, and what is tested is where tensors lie:

    with SecondDevice() as device:
        decoder = Decoder(*converted.load(weights, description), "cuda:1")

Tensors of different devices in one operation are refused as CUDA refuses them, and so is a numpy array of a tensor that
is not on the CPU. To index by a tensor of the CPU, and to fill a part of a tensor from one, is refused too: CUDA
copies them then, and waits. All this is checked where Python calls torch. What torch does inside of an
operation is not looked at, and no kernel of a GPU runs: their numbers, their times and their memory are not tested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import FunctionType, SimpleNamespace, TracebackType
from typing import Any, Self
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from ff_memories.base import machine
from ff_memories.model import matmul

CPU = torch.device("cpu")
NAME, MEMORY = "a device that is not there", 2 * 10**9


class Placed(torch.Tensor):
    """A tensor of the second device.

    Attributes:
        place: the device, with its number.
    """

    place: torch.device


# functions that multiply matrices, and which of their arguments these are
FACTORS: Mapping[Any, slice] = {
    torch.nn.functional.linear: slice(0, 2),
    torch.mm: slice(0, 2),
    torch.matmul: slice(0, 2),
    torch.Tensor.matmul: slice(0, 2),  # a @ b
    torch.addmm: slice(1, 3),
    torch._addmm_activation: slice(1, 3),
    torch.nn.functional.scaled_dot_product_attention: slice(0, 3),
}


def tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Return float32 numbers rounded to the 11 significant bits of tf32, to nearest, ties to even."""
    bits = tensor.contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def _as_a_gpu_rounds(func: Any, args: Sequence[Any], options: dict[str, Any]) -> Sequence[Any]:
    """Return a product's arguments with its factors as a GPU takes them; the CPU has no sums in another type."""
    factors = FACTORS[func]
    rounded = list(args)
    if options.pop("out_dtype", None) == torch.float32:
        rounded[factors] = [factor.float() for factor in args[factors]]
    elif torch.get_float32_matmul_precision() == "high":
        rounded[factors] = [tf32(f) if f.dtype == torch.float32 else f for f in args[factors]]
    return rounded


@contextmanager
def another_job() -> Iterator[None]:
    """Let what runs in the block take its devices as another job would: those of others stay taken."""
    with mock.patch.object(machine, "_held_gpus", {}):
        try:
            yield
        finally:
            for file in machine._held_gpus.values():
                file.close()


def place_of(tensor: torch.Tensor) -> torch.device:
    """Return the device that a tensor lies on."""
    return tensor.place if isinstance(tensor, Placed) else CPU


class SecondDevice(TorchFunctionMode):
    """A machine's devices ``cuda:0``, ``cuda:1`` and so on, for as long as the block lasts.

    Args:
        names: what each one's model is called.

    Attributes:
        calls: how often each function of torch ran on each device, by (device, function).
        refused: the functions whose results found no memory, in order.
        emptied: how often the device's unused memory was given back.
    """

    def __init__(self, names: Sequence[str] = (NAME, NAME)):
        super().__init__()
        self.names = names
        self.calls: Counter[tuple[str, str]] = Counter()
        self.refused: list[str] = []
        self.emptied = self._wait = 0
        self._little: tuple[int, Iterator[int]] | None = None
        self._patches = ExitStack()
        tensor: Any = torch.Tensor  # whose properties functions of this class stand in for
        self._own: Mapping[Any, Callable[..., Any]] = {
            tensor.device.__get__: place_of,
            tensor.is_cuda.__get__: lambda tensor: isinstance(tensor, Placed),
            tensor.is_cpu.__get__: lambda tensor: not isinstance(tensor, Placed),
            torch.Tensor.to: self._to,
            torch.Tensor.cpu: lambda tensor: self._to(tensor, CPU),
            torch.Tensor.cuda: lambda tensor, device="cuda": self._to(tensor, device),
            torch.Tensor.type_as: self._to,
            torch.Tensor.copy_: lambda tensor, *rest, **more: torch.Tensor.copy_(tensor, *rest, **more),
            torch.Tensor.numpy: _on_cpu_alone(torch.Tensor.numpy),
            torch.Tensor.__array__: _on_cpu_alone(torch.Tensor.__array__),
            torch.Tensor.__iter__: self._each,
            torch._has_compatible_shallow_copy_type: lambda one, other: place_of(one) == place_of(other),
        }

    def __enter__(self) -> Self:
        for name, function in self._cuda().items():
            self._patches.enter_context(mock.patch.object(torch.cuda, name, function))
        self._patches.enter_context(mock.patch.object(matmul, "ON_CARD", False))  # a card's kernel takes no CPU tensor
        self._patches.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._patches.close()

    def _cuda(self) -> dict[str, Callable[..., Any]]:
        """Return what stands in for functions of ``torch.cuda``; no memory is counted."""

        def empty_cache() -> None:
            self.emptied += 1

        return {
            "is_available": lambda: True,
            "device_count": lambda: len(self.names),
            "get_device_name": lambda device="cuda": self.names[self.numbered(device).index],
            "get_device_capability": lambda device="cuda": (9, 0),
            "get_device_properties": lambda device: SimpleNamespace(total_memory=MEMORY),
            "synchronize": lambda: None,
            "empty_cache": empty_cache,
            "reset_peak_memory_stats": lambda: None,
            "memory_allocated": lambda: 0,
            "max_memory_allocated": lambda: 0,
        }

    @contextmanager
    def short(self, largest: int, waits: Iterator[int]) -> Iterator[None]:
        """Let memory run out, again and again, while the block lasts.

        Args:
            largest: the bytes of a tensor that always finds memory.
            waits: how many larger tensors are asked for until one finds none, that one included, each time anew. A wait
                goes on from block to block.
        """
        before, self._little = self._little, (largest, waits)
        try:
            yield
        finally:
            self._little = before

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run a function of torch on the device that its tensors lie on, or that it asks for."""
        options = dict(kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            if func in self._own:
                return self._own[func](*args, **options)
            given = list(_tensors((args, options)))
            if options.get("device") is None:
                place = _together(func, given)
            else:
                place, options["device"] = self.numbered(options["device"]), CPU
                if (own := options.get("generator")) is not None and own.device.type != place.type:
                    raise RuntimeError(f"expected a generator of {place.type}, but found {own.device.type}")
            options.pop("pin_memory", None)  # there is no other kind of memory here
            if place != CPU and func in FACTORS:
                args = _as_a_gpu_rounds(func, args, options)
            out = func(*args, **options)
            self.calls[str(place), func.__name__] += 1
            return out if place == CPU else self._placed(out, place, func.__name__, given)

    def numbered(self, device: torch.device | str | int) -> torch.device:
        """Return a device with its number, which is 0 where none is said. Raises ``RuntimeError`` where there is none.

        A device that is neither ``cuda`` nor ``cpu`` is torch's own affair.
        """
        found = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        if found.type != "cuda":
            return found
        if (found.index or 0) >= len(self.names):
            raise RuntimeError("CUDA error: invalid device ordinal")
        return torch.device("cuda", found.index or 0)

    def _placed(self, out: Any, place: torch.device, name: str, given: Sequence[torch.Tensor]) -> Any:
        """Return a function's result with its new tensors placed; it keeps those that were placed before."""
        if isinstance(out, tuple | list):
            return type(out)(self._placed(part, place, name, given) for part in out)
        if isinstance(out, Placed) or not isinstance(out, torch.Tensor):
            return out
        if self._little is not None:
            self._allocate(out, name, given, *self._little)
        made = out.as_subclass(Placed)
        made.place = place
        return made

    def _allocate(
        self, tensor: torch.Tensor, name: str, given: Sequence[torch.Tensor], largest: int, waits: Iterator[int]
    ) -> None:
        """Raise ``OutOfMemoryError`` where it is a tensor's turn to find no memory; a view of another needs none."""
        memory = tensor.untyped_storage()
        held = {other.untyped_storage().data_ptr() for other in given}
        if memory.nbytes() <= largest or memory.data_ptr() in held:
            return
        self._wait = (self._wait or next(waits)) - 1
        if self._wait == 0:
            self.refused.append(name)
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {memory.nbytes()} bytes.")

    def _to(self, tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        """Return a tensor on another device, or as another kind of numbers: a copy wherever the device is another."""
        place = place_of(tensor)

        def plain(option: Any) -> Any:
            nonlocal place
            if isinstance(option, torch.Tensor):  # to be like this one
                place = place_of(option)
            elif isinstance(option, torch.device | str | int) and not isinstance(option, bool):
                place = self.numbered(option)
                return CPU
            return option

        args, options = tuple(map(plain, args)), {name: plain(option) for name, option in options.items()}
        out = torch.Tensor.to(tensor, *args, **options)
        if place == place_of(tensor):
            return out if place == CPU else self._placed(out, place, "to", [tensor])
        out = (out.clone() if out is tensor else out).as_subclass(torch.Tensor)
        return out if place == CPU else self._placed(out, place, "to", [])

    def _each(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        place = place_of(tensor)
        parts = torch.Tensor.unbind(tensor, 0)
        return iter(parts if place == CPU else self._placed(parts, place, "unbind", [tensor]))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among a function's arguments, however deep they lie in tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _together(func: Any, given: Sequence[torch.Tensor]) -> torch.device:
    """Return the device of all tensors. Raises ``RuntimeError`` where there are several.

    A single number on the CPU may meet any device. A function written in Python may take an empty tensor for none.
    """
    least = 1 if isinstance(func, FunctionType) else 0
    every = ((place_of(t), t.dim() and t.numel() >= least) for t in given)
    places = {place for place, counts in every if counts or place != CPU}
    if len(places) > 1:
        met = " and ".join(sorted(map(str, places)))
        raise RuntimeError(f"{func.__name__}: expected all tensors to be on the same device, but found {met}")
    return places.pop() if places else CPU


def _on_cpu_alone(read: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises ``TypeError`` for a tensor that numpy cannot read, and else reads it."""

    def run(tensor: torch.Tensor, *args: Any, **options: Any) -> Any:
        if isinstance(tensor, Placed):
            raise TypeError(f"can't convert {tensor.place} device type tensor to numpy")
        return read(tensor, *args, **options)

    return run
