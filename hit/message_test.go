package hit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/hit"
)

func TestMessage(t *testing.T) {
	t.Parallel()
	var body []byte
	var want []*hit.Batch
	for i := range 3 {
		b := sample()
		b.Seq += uint64(i)
		data, err := hit.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		body, want = append(body, data...), append(want, b)
	}
	decode := func(data []byte, n int) ([]*hit.Batch, error) {
		return hit.DecodeMessage(data, want[0].Edge, want[0].Shard, want[0].Seq, uint64(n))
	}
	got, err := decode(body, 3)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	one := len(body) / 3
	for name, tc := range map[string]struct {
		data []byte
		n    int
	}{
		"nothing":               {nil, 1},
		"cut off":               {body[:len(body)-1], 3},
		"a piece behind":        {append(body[:one:one], 0x82), 1},
		"too large a body":      {make([]byte, hit.MaxBatchBytes+1), 1},
		"fewer than were named": {body, 4},
		"more than were named":  {body, 2},
		"none":                  {body, 0},
		"too many":              {make([]byte, hit.MaxBatches+1), hit.MaxBatches + 1},
	} {
		if got, err := decode(tc.data, tc.n); err == nil || len(got) != 0 {
			t.Errorf("%s: decoded to %d batches, %v", name, len(got), err)
		}
	}
	newer := slices.Clone(body)
	newer[one+2] = 3 // the version of the second
	second := &hit.Batch{Version: 3, Edge: want[0].Edge, Shard: want[0].Shard, Seq: want[0].Seq + 1}
	if got, err := decode(newer, 3); err != nil || !cmp.Equal(got, []*hit.Batch{want[0], second, want[2]}) {
		t.Errorf("a newer one among them: %+v, %v", got, err)
	}
	for name, tc := range map[string]struct {
		data []byte
		want []*hit.Batch
	}{
		"something behind":  {append(body[:one:one], 0), []*hit.Batch{want[0], nil}},
		"twice the same":    {append(body[:one:one], body[:one]...), []*hit.Batch{want[0], nil}},
		"out of order":      {append(body[one:2*one:2*one], body[:one]...), []*hit.Batch{nil, nil}},
		"one is missing":    {append(body[:one:one], body[2*one:]...), []*hit.Batch{want[0], nil}},
		"not in a sequence": {append([]byte{0x82}, body[:2*one]...), []*hit.Batch{nil}},
	} {
		got, err := decode(tc.data, len(tc.want))
		if diff := cmp.Diff(tc.want, got); err == nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

// Whatever a body holds, its size and the number of its batches bound the work of
// reading it, and the error is short. In a body of zeros every byte is a batch. Not
// parallel: it counts allocations.
func TestHostileMessages(t *testing.T) {
	key := "\x7a\x00\x03\x0d\x40" + strings.Repeat("\x0a", 200_000) // a text
	for name, item := range map[string]string{
		"zeros":                  "\x00",
		"empty maps":             "\xa0",
		"empty arrays":           "\x80",
		"newer versions":         "\xa1\x01\x03",
		"version 0":              "\xa1\x01\x00",
		"no edge":                "\xa1\x01\x01",
		"many keys":              "\xb8\x40" + strings.Repeat("\x00\x00", 64),
		"a long key twice":       "\xa2" + key + "\x00" + key + "\x00",
		"another edge's":         "\xa5\x01\x01\x02\x61x\x03\x00\x04\x01\x05\x80",
		"hits without anything":  "\xa5\x01\x01\x02\x61e\x03\x00\x04\x01\x05\x99\x01\x00" + strings.Repeat("\xa0", 256),
		"the end of indefinites": "\xff",
		"deep arrays":            "\x81",
	} {
		fit := hit.MaxBatchBytes / len(item)
		for _, tc := range []struct{ items, named int }{
			{fit, 1}, {fit, hit.MaxBatches}, {min(fit, hit.MaxBatches), min(fit, hit.MaxBatches)},
		} {
			body := []byte(strings.Repeat(item, tc.items))
			allocs := testing.AllocsPerRun(1, func() {
				batches, err := hit.DecodeMessage(body, "e", 0, 1, uint64(tc.named))
				if len(batches) > tc.named {
					t.Errorf("%s: %d batches, %d were named", name, len(batches), tc.named)
				}
				if err != nil && len(err.Error()) > 4096 {
					t.Errorf("%s, %+v: an error of %d bytes: %.80s…", name, tc, len(err.Error()), err)
				}
			})
			if bound := float64(20*tc.named + 100); allocs > bound {
				t.Errorf("%s, %+v: %v allocations, want at most %v", name, tc, allocs, bound)
			}
		}
	}
}
