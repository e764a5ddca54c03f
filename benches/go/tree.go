// Dolt's tree of a blob: leaves of 4000 bytes, and inner nodes of up to 200 hashes. Each node is a message, and its name
// is its SHA-512. In: a blob. Out: the root's hash. The bytes are exactly those that allocanary's `blob` makes.
package main

import (
	"crypto/sha512"
	"encoding/binary"
)

const (
	leafBytes = 4000
	hashBytes = 20
	fanOut    = leafBytes / hashBytes
)

type hash [hashBytes]byte

// level keeps children until their node is full.
type level struct {
	addresses []byte
	counts    []uint64
}

// builder makes trees. A builder that keeps its levels allocates a buffer for each node. One that also keeps its
// message allocates nothing after the largest blob.
type builder struct {
	levels      []level
	message     []byte
	keepMessage bool
	verified    uint64
}

func levelsOf(size int) int {
	levels := 0
	if size > leafBytes {
		for rest := size / leafBytes; rest > 0; rest /= fanOut {
			levels++
		}
	}
	return levels
}

func (tree *builder) build(blob []byte) hash {
	top := levelsOf(len(blob))
	for len(tree.levels) < top {
		tree.levels = append(tree.levels, level{make([]byte, 0, leafBytes), make([]uint64, 0, fanOut)})
	}
	var root hash
	for offset := 0; offset < len(blob); {
		payload := min(leafBytes, len(blob)-offset)
		child, leaves := tree.leaf(blob[offset:offset+payload]), uint64(1)
		offset += payload
		root = child
		for at := 0; at < top; at++ {
			if tree.push(at, child, leaves); len(tree.levels[at].counts) < fanOut {
				break
			}
			child, leaves = tree.inner(at)
			root = child
		}
	}
	if top > 0 && len(tree.levels[top-1].counts) == 0 && tree.empty(top) {
		return root
	}
	for at := 0; at < top; at++ {
		child, leaves := tree.inner(at)
		if leaves > 0 && at+1 < top {
			tree.push(at+1, child, leaves)
		}
		root = child
	}
	return root
}

// empty is whether no child waits at a level. Then the node that became full last is the root.
func (tree *builder) empty(top int) bool {
	for at := 0; at < top; at++ {
		if len(tree.levels[at].counts) > 0 {
			return false
		}
	}
	return true
}

func (tree *builder) push(at int, child hash, leaves uint64) {
	level := &tree.levels[at]
	level.addresses = append(level.addresses, child[:]...)
	level.counts = append(level.counts, leaves)
}

// buffer allocates as Dolt does: room for a node's values, the longest varints, and 200 bytes for everything else.
func (tree *builder) buffer(values, children int) []byte {
	if !tree.keepMessage {
		return make([]byte, values+10*children+200)
	}
	if tree.message == nil {
		tree.message = make([]byte, leafBytes+10*fanOut+200)
	}
	return tree.message
}

func name(message []byte) hash {
	digest := sha512.Sum512(message)
	return hash(digest[:hashBytes])
}

func up(size, to int) int { return (size + to - 1) / to * to }

// leaf writes a leaf's message. Lengths are counted from its end, because FlatBuffers are built from the end.
func (tree *builder) leaf(payload []byte) hash {
	count := len(payload)
	vector := up(count, 4) + 4
	table := up(vector+4, 8) + 12
	length := table + 24
	// This is the sum of prefix, vtable and table: 44 bytes around a full leaf.
	buffer := tree.buffer(count, 1)[:length]
	clear(buffer)
	head(buffer, 24)
	shorts(buffer[12:], 12, table-vector, table-vector-4, 0, 0, 4)
	word(buffer[24:], 12)
	binary.LittleEndian.PutUint64(buffer[28:], 1)
	word(buffer[length-vector-4:], 4)
	word(buffer[length-vector:], count)
	copy(buffer[length-vector+4:], payload)
	return name(buffer)
}

// inner writes the node of the children that wait at a level, and clears the level.
func (tree *builder) inner(at int) (hash, uint64) {
	level := &tree.levels[at]
	var varints [10 * fanOut]byte
	sizes, leaves, before := 0, uint64(0), uint64(0)
	for _, count := range level.counts {
		sizes += binary.PutVarint(varints[sizes:], int64(count-before))
		leaves += count
		before = count
	}
	addressVector := len(level.addresses) + 4
	sizeVector := up(addressVector+sizes, 4) + 4
	offsets := sizeVector + 8
	treeSize, align, treeSizeField := offsets, 4, 0
	if leaves > 0 {
		treeSize, align = up(offsets, 8)+8, 8
	}
	table := up(treeSize+1, 4) + 4
	if leaves > 0 {
		treeSizeField = table - treeSize
	}
	length := up(table+14+8, align) + 4
	buffer := tree.buffer(len(level.addresses), len(level.counts))[:length]
	clear(buffer)
	from := func(end int) []byte { return buffer[length-end:] }
	head(buffer, length-table)
	shorts(buffer[length-table-14:], 14, table-sizeVector, 0, table-sizeVector-4, table-offsets, treeSizeField,
		table-treeSize-1)
	word(from(table), 14)
	buffer[length-treeSize-1] = byte(at + 1)
	if leaves > 0 {
		binary.LittleEndian.PutUint64(from(treeSize), leaves)
	}
	word(from(offsets), 8)
	word(from(offsets-4), sizeVector+4-addressVector)
	word(from(sizeVector), sizes)
	copy(from(sizeVector-4), varints[:sizes])
	word(from(addressVector), len(level.addresses))
	copy(from(len(level.addresses)), level.addresses)
	level.addresses, level.counts = level.addresses[:0], level.counts[:0]
	return name(buffer), leaves
}

func head(buffer []byte, table int) {
	binary.BigEndian.PutUint32(buffer, uint32(len(buffer)-4))
	buffer[0] = 27
	word(buffer[4:], table-4)
	copy(buffer[8:], "BLOB")
}

func word(buffer []byte, value int) { binary.LittleEndian.PutUint32(buffer, uint32(value)) }

func shorts(buffer []byte, values ...int) {
	for at, value := range values {
		binary.LittleEndian.PutUint16(buffer[2*at:], uint16(value))
	}
}
