// A small service in Go, and its load. In: `serve PORT`, or `load PORT`. Out: answers by HTTP; requests a second and their p99.
//
// It keeps 32 MiB of documents. A request replaces one, and makes garbage of some 100 KiB, as a service that parses and builds answers.
package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	documents = 16 << 10
	bytesEach = 2 << 10
	clients   = 8
	seconds   = 2
)

type document struct {
	words []string
	body  []byte
}

// parse makes a document as a parser does: many small values.
func parse(number int) *document {
	var text bytes.Buffer
	for at := 0; text.Len() < bytesEach/2; at++ {
		fmt.Fprintf(&text, "word-%d-%d ", number, at)
	}
	return &document{strings.Fields(text.String()), append([]byte(nil), text.Bytes()...)}
}

type store struct {
	sync.Mutex
	all [documents]*document
}

func (store *store) ServeHTTP(to http.ResponseWriter, request *http.Request) {
	number, err := strconv.Atoi(strings.TrimPrefix(request.URL.Path, "/"))
	if err != nil || number < 0 || number >= documents {
		http.Error(to, "wanted /NUMBER", http.StatusBadRequest)
		return
	}
	found := parse(number)
	// The answer is built of pieces that nobody keeps.
	var answer bytes.Buffer
	for _, word := range found.words {
		answer.WriteString(strings.ToUpper(word))
		answer.Write(bytes.Repeat([]byte{' '}, 512))
	}
	store.Lock()
	store.all[number] = found
	store.Unlock()
	to.Write(answer.Bytes()[:1024])
}

func serve(port string) error {
	store := &store{}
	for number := range store.all {
		store.all[number] = parse(number)
	}
	return http.ListenAndServe("127.0.0.1:"+port, store)
}

// load sends requests from several clients for a time.
func load(port string) error {
	var group sync.WaitGroup
	laps := make([][]time.Duration, clients)
	failed := make([]error, clients)
	until := time.Now().Add(seconds * time.Second)
	for client := 0; client < clients; client++ {
		group.Add(1)
		go func(client int) {
			defer group.Done()
			draw := rand.New(rand.NewSource(int64(client)))
			for time.Now().Before(until) {
				started := time.Now()
				answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s/%d", port, draw.Intn(documents)))
				if err == nil {
					_, err = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
				if err != nil {
					failed[client] = err
					return
				}
				laps[client] = append(laps[client], time.Since(started))
			}
		}(client)
	}
	group.Wait()
	var all []time.Duration
	for client := range laps {
		if failed[client] != nil {
			return failed[client]
		}
		all = append(all, laps[client]...)
	}
	sort.Slice(all, func(a, b int) bool { return all[a] < all[b] })
	p99 := all[len(all)*99/100]
	fmt.Printf("%d requests/s, p99 %.3f ms\n", len(all)/seconds, float64(p99.Microseconds())/1000)
	return nil
}

func main() {
	err := fmt.Errorf("wanted serve PORT, or load PORT")
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		err = serve(os.Args[2])
	} else if len(os.Args) == 3 && os.Args[1] == "load" {
		err = load(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
