"""50,000 objects in a cache, 7,000 in a list, and 4,000 in circles that nothing holds. Waits until its input ends."""
import gc
import sys

gc.disable()


class Session:
    def __init__(self, number):
        self.name = "session number %d" % number
        self.data = [number, number + 1]
        self.when = float(number)


class Slot:
    __slots__ = ("number",)


class Circle:
    pass


CACHE = {number: Session(number) for number in range(50000)}
SLOTS = [Slot() for _ in range(7000)]


def lose():
    for _ in range(2000):
        one, other = Circle(), Circle()
        one.other, other.other = other, one


lose()
print("lost=4000", flush=True)
sys.stdin.read()
