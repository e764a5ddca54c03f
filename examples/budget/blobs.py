"""Answers are made in three phases, each of larger ones. Some of each phase are kept: between them are holes that the next phase's answers
do not fit in.

    blobs.py [MiB of a phase]

Prints a sum that is the same under each allocator.
"""

import random
import sys

mib = int(sys.argv[1]) if len(sys.argv) > 1 else 48
random.seed(1)
kept, total = [], 0
# The smallest and the largest answer, and one of how many is kept.
for smallest, largest, every in [(3000, 5000, 8), (36000, 60000, 3), (100000, 127000, 8)]:
    answers, size = [], 0
    while size < mib << 20:
        answers.append(b"x" * random.randrange(smallest, largest))
        size += len(answers[-1])
    total += size
    kept.append(answers[::every])
    del answers
print(total, sum(len(answer) for phase in kept for answer in phase))
