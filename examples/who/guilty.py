"""A program in Python with a known answer. `requests` makes 64 MiB of short life in blocks of some 8 KiB, and `remembers` keeps 64 bytes
behind each: at the end it pins every page. Record it with PYTHONPERFSUPPORT=1 and PYTHONMALLOC=malloc (Python 3.12 or later):

    PYTHONPERFSUPPORT=1 PYTHONMALLOC=malloc allocanary record -o traces -- python3 examples/who/guilty.py
    allocanary who traces/*.trace --at 1h    # the end
"""


def requests(size):
    return bytearray(size)


def remembers(number):
    return b"%031d" % number


def serve(count):
    kept, large = [None] * count, [None] * count
    for number in range(count):
        large[number] = requests(7000 + number * 7919 % 2400)
        kept[number] = remembers(number)
    large.clear()
    return kept


kept = serve(8192)
# Until here nothing of `kept` has ended.
import os
os._exit(0)
