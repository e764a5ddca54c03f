# A control group with a memory limit, v1 or v2, for a script that is root. `limited BYTES` (or `max`) sets the limit, and `$folder` is
# the group. It is removed when the script ends.
needs_root "the control group"
own=$(awk -F: '$2 ~ /(^|,)memory(,|$)/ { print $3 }' /proc/self/cgroup)
if [ -n "$own" ]; then
    folder=/sys/fs/cgroup/memory${own%/}/allocanary-budget-$$
    limited() { echo "${1/max/-1}" >"$folder/memory.limit_in_bytes"; }
else
    # A group that contains processes cannot have groups with limits below it. So the new group is next to our own group.
    own=$(awk -F: '$1 == 0 { print $3 }' /proc/self/cgroup)
    folder=/sys/fs/cgroup$(dirname "$own")
    folder=${folder%/}/allocanary-budget-$$
    limited() { echo "$1" >"$folder/memory.max"; echo 0 >"$folder/memory.swap.max" 2>/dev/null || true; }
fi
mkdir "$folder"
at_end() { for _ in 1 2 3 4 5; do rmdir "$folder" 2>/dev/null && break; sleep 1; done; }
