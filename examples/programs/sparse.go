// Sparse holds 64 tables of 1 MiB and uses one page of 4 KiB in eight, as a service that reserves for its worst case. Where huge pages
// are always on, all of each table becomes resident.
package main

import (
	"fmt"
	"time"
)

var tables [][]byte

func main() {
	for range 64 {
		table := make([]byte, 1<<20)
		for at := 0; at < len(table); at += 32 << 10 {
			table[at] = 1
		}
		tables = append(tables, table)
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	fmt.Println(len(tables))
}
