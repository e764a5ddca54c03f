# jq: values that are counted and copied.
packages="jq"
program() { readlink -f "$(command -v jq)"; }
version() { jq --version | tr -d jq-; }
run() {
    jq -n -c '[range(30000) | {id: ., name: ("n" * (. % 50 + 1)), tags: [. % 7, . % 11]}]' > all.json
    cksum < all.json
    jq -c 'group_by(.tags[0]) | map({tag: .[0].tags[0], count: length, sum: (map(.id) | add)})' all.json
    jq -r 'map(select(.name | test("^n{40,}$"))) | map(.name | length) | add' all.json
    jq -c '[.. | numbers] | length' all.json
    jq -n 'reduce range(50000) as $n ({}; .[$n % 100 | tostring] += $n) | map_values(. % 1000) | add'
    jq . <<< '{"a": ' 2> /dev/null
    echo "unfinished $?"
}
