<?php
// A big request: rows of random sizes.
mt_srand((int) $_GET['seed']);
$rows = [];
for ($taken = 0; $taken < (int) $_GET['size']; $taken += $length + 100) {
    $length = (int) (32 * 128 ** (mt_rand() / mt_getrandmax()));
    $rows[] = ['id' => count($rows), 'text' => str_repeat('x', $length)];
}
usleep(20000);
echo count($rows);
// What a developer can add at the end of a big request.
if (getenv('DOOR_GC_MEM_CACHES')) {
    $rows = null;
    gc_mem_caches();
}
