// Tests of what a study cannot check: the trees equal Dolt's, the quantiles are right, and texts are parsed as in
// allocanary.
package main

import (
	"math/big"
	"testing"
)

func text32(name hash) string {
	const digits = "0123456789abcdefghijklmnopqrstuv"
	number := new(big.Int).SetBytes(name[:])
	out := make([]byte, 32)
	for at := 31; at >= 0; at-- {
		var digit big.Int
		number.DivMod(number, big.NewInt(32), &digit)
		out[at] = digits[digit.Int64()]
	}
	return string(out)
}

func TestTreesAreDolts(t *testing.T) {
	roots := map[int]string{
		1: "lsl61r0q8r8rpt2me99rldtplq3q20o9", 1000: "al9b1uhvinu9460vfldsbmveaphquc1h",
		3999: "mfs5eveps8mdgrqq5ve20s8h4pjenbh8", 4000: "ofoe2vlrt4opjncd5cngd94mkae6077b",
		4001: "11l67dleo1ifh0ulc350b0lgce03bubl", 8000: "6g53q0ga6f4hikn5m7vr99j2md9utq7i",
		10000: "vag2g6m8h2cc8rdvbmuatji1lgqv5qb5", 100000: "2b1g951j1d143nvonnns3vh7hhahv2qi",
		800000: "k1mp3qk9ukjtrtdmb4eb4dgn9svctv3g", 1000000: "96uslk8i5ld870bn2tpjkcmn9cg3jm7f",
	}
	for _, keep := range []bool{false, true} {
		tree := &builder{keepMessage: keep}
		for size, root := range roots {
			blob := make([]byte, size)
			for at := range blob {
				blob[at] = byte(at)
			}
			if found := text32(tree.build(blob)); found != root {
				t.Errorf("%d bytes, kept %v: wanted %s, found %s", size, keep, root, found)
			}
		}
	}
}

func TestABallastIsASettingThatIsFound(t *testing.T) {
	defer func() { ballast = nil }()
	if err := holdBallast(map[string]string{"ballast": "64MiB"}); err != nil {
		t.Fatal(err)
	}
	if found := settingsFound(map[string]string{"ballast": "67108864"})["ballast"]; found != "67108864" {
		t.Errorf("wanted 67108864, found %s", found)
	}
	if err := holdBallast(map[string]string{"ballast": "much"}); err == nil {
		t.Error("`much` was taken for a size")
	}
}

func TestQuantilesAreWithinOnePercent(t *testing.T) {
	var laps histogram
	if laps.quantiles(1) != nil {
		t.Error("nothing was timed")
	}
	for lap := uint64(1); lap <= 10000; lap++ {
		laps.record([]uint64{lap * 100})
	}
	found := laps.quantiles(1)
	for _, pair := range [][2]float64{{float64(found.P50), 500e3}, {float64(found.P99), 990e3}, {float64(found.Max), 1e6}} {
		if ratio := pair[0] / pair[1]; ratio < 0.99 || ratio > 1.01 {
			t.Errorf("%v", pair)
		}
	}
}

func TestRandomNumbersAreAllocanarys(t *testing.T) {
	state := rng(1234567)
	for _, wanted := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		if found := state.next(); found != wanted {
			t.Errorf("wanted %d, found %d", wanted, found)
		}
	}
}

func TestSizesAreRead(t *testing.T) {
	for text, bytes := range map[string]int{"64": 64, "4k": 4096, "1.5KiB": 1536, "8 MB": 8 << 20, "1GiB": 1 << 30} {
		if found, err := parseSize(text); err != nil || found != bytes {
			t.Errorf("%s: %d, %v", text, found, err)
		}
	}
	for _, text := range []string{"", "12q", "k", "-1"} {
		if _, err := parseSize(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
