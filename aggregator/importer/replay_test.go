package importer

import (
	"bytes"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// recording returns a file of n batches of three views each, as an edge writes it.
func recording(t *testing.T, n int) []byte {
	t.Helper()
	var file []byte
	for i := range n {
		b := &hit.Batch{Edge: "edge", Shard: 9, Seq: uint64(i + 1), Rules: rules(t).ID()} // of a log with more shards
		for j := range 3 {
			b.Hits = append(b.Hits, hit.Hit{Kind: hit.View, List: "articles", Item: fmt.Sprint(j), Visitor: uint64(i + 1), Time: time.Now().UnixMilli()})
		}
		data, err := hit.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, data...)
	}
	return file
}

func (f *fixture) replays(file []byte) (*Recording, bool) {
	f.t.Helper()
	r, err := ReadRecording(bytes.NewReader(file))
	if err != nil {
		f.t.Fatal(err)
	}
	already, err := Replay(f.t.Context(), Options{Conn: f.nc, Rules: rules(f.t)}, r)
	if err != nil {
		f.t.Fatal(err)
	}
	return r, already
}

func TestReplayTwiceIsReplayOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, rules(t))
	file := recording(t, 20)
	for round := range 3 {
		r, already := f.replays(file)
		if already != (round > 0) || r.Batches != 20 || r.Hits["articles"] != 60 || r.Bad != nil {
			t.Errorf("round %d: already %t, %+v", round, already, r)
		}
		if got, want := f.scores("articles"), map[string]int{"0": 20, "1": 20, "2": 20}; !maps.Equal(got, want) {
			t.Errorf("round %d: %v, want %v", round, got, want)
		}
	}
}

// Replay counts the readable part of a truncated file.
func TestReplayOfACutOffFile(t *testing.T) {
	t.Parallel()
	f := newFixture(t, rules(t))
	file := recording(t, 5)
	r, _ := f.replays(file[:len(file)-10])
	if got := f.scores("articles"); r.Batches != 4 || r.Bad == nil || got["0"] != 4 {
		t.Errorf("%+v, scores %v", r, got)
	}
}

func TestNoRecording(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"nonsense", "\x00\x00\x00", string(recording(t, 1)[:50])} {
		if r, err := ReadRecording(bytes.NewReader([]byte(text))); err == nil {
			t.Errorf("%q is read as %+v", text, r)
		}
	}
}
