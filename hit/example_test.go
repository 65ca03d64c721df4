package hit_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// An edge encodes a batch, and the aggregator decodes it.
func ExampleEncode() {
	data, err := hit.Encode(&hit.Batch{
		Edge: "edge-a", Shard: 7, Seq: 42, Rules: hit.RulesIDOf([]byte("{}")),
		Hits: []hit.Hit{{
			Kind: hit.View, List: "articles", Item: "rust-in-caddy", Visitor: 0xb0263f,
			Time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixMilli(),
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := hit.Decode(data)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("batch %d of %s: %s in %s\n", b.Seq, b.Edge, b.Hits[0].Item, b.Hits[0].List)
	// Output: batch 42 of edge-a: rust-in-caddy in articles
}

// Encode refuses a batch that Decode would refuse, here one without a sequence
// number.
func ExampleEncode_invalid() {
	_, err := hit.Encode(&hit.Batch{Edge: "edge-a", Shard: 7})
	fmt.Println(err)
	// Output: encoding a batch: sequences start at 1
}

// A message with a damaged batch still yields the others; the damaged one is nil.
func ExampleDecodeMessage() {
	first, err := hit.Encode(&hit.Batch{Edge: "edge-a", Shard: 7, Seq: 41})
	if err != nil {
		fmt.Println(err)
		return
	}
	damaged := []byte{0xa0} // an empty CBOR map
	batches, err := hit.DecodeMessage(append(first, damaged...), "edge-a", 7, 41, 2)
	fmt.Println(len(batches), batches[0].Seq, batches[1] == nil, err != nil)
	// Output: 2 41 true true
}

// All views of an item are in one shard, and all votes of a list.
func ExampleShard() {
	fmt.Println(hit.Shard(hit.View, "articles", "rust-in-caddy", 16))
	fmt.Println(hit.Shard(hit.View, "articles", "tail-latency", 16))
	fmt.Println(hit.Shard(hit.Vote, "dinner", "ramen", 16) == hit.Shard(hit.Vote, "dinner", "tacos", 16))
	// Output:
	// 6
	// 11
	// true
}

// A subject names the shard and the edge of a batch.
func ExampleSubject() {
	subject := hit.Subject(7, "edge-a")
	shard, edge, err := hit.ParseSubject(subject)
	fmt.Println(subject, shard, edge, err)
	// Output: hotboard.hits.7.edge-a 7 edge-a <nil>
}

// ValidID explains why a text cannot be an id.
func ExampleValidID() {
	fmt.Println(hit.ValidID("2026/rust-in-caddy"))
	fmt.Println(hit.ValidID("a\nb"))
	fmt.Println(errors.Is(hit.ValidID(""), hit.ErrIDLength))
	// Output:
	// <nil>
	// an id has no control characters
	// true
}
