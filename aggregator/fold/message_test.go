package fold_test

import (
	"testing"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/hit"
)

// A message covers the batches that its headers name, even with an unreadable body.
// With unreadable headers it covers none.
func TestRead(t *testing.T) {
	t.Parallel()
	batch := func(seq uint64) string {
		data, err := hit.Encode(&hit.Batch{Edge: "e1", Seq: seq})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, tc := range map[string]struct {
		first, last, low, body string
		covers                 [2]uint64
		ok                     bool
	}{
		"one":                      {first: "7", low: "1", body: batch(7), covers: [2]uint64{7, 7}, ok: true},
		"two":                      {first: "7", last: "8", low: "7", body: batch(7) + batch(8), covers: [2]uint64{7, 8}, ok: true},
		"fewer than named":         {first: "7", last: "9", low: "1", body: batch(7) + batch(8), covers: [2]uint64{7, 9}},
		"more than named":          {first: "7", low: "1", body: batch(7) + batch(8), covers: [2]uint64{7, 7}},
		"a body of something else": {first: "7", last: "9", low: "1", body: "what?", covers: [2]uint64{7, 9}},
		"low after the first":      {first: "7", low: "8", body: batch(7), covers: [2]uint64{7, 7}},
		"no low":                   {first: "7", body: batch(7), covers: [2]uint64{7, 7}},
		"no sequence":              {low: "1", body: batch(7)},
		"sequence 0":               {first: "0", last: "9", low: "0", body: batch(7)},
		"a sequence without next":  {first: "18446744073709551615", low: "1", body: batch(7)},
		"last before the first":    {first: "7", last: "6", low: "1", body: batch(7)},
		"last is no number":        {first: "7", last: "x", low: "1", body: batch(7)},
		"too many":                 {first: "7", last: "8199", low: "1", body: batch(7)},
	} {
		headers := map[string]string{hit.HeaderSeq: tc.first, hit.HeaderLast: tc.last, hit.HeaderLow: tc.low}
		m := fold.Read(0, 1, t0, hit.Subject(0, "e1"), func(k string) string { return headers[k] }, []byte(tc.body))
		if got := [2]uint64{m.BatchSeq, m.LastSeq}; got != tc.covers || (m.Err == nil) != tc.ok || (len(m.Batches) > 0) != tc.ok {
			t.Errorf("%s: covers %v with %d batches, %v; want %v", name, got, len(m.Batches), m.Err, tc.covers)
		}
	}
}
