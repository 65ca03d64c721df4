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

// A message that puts rules in force is either exactly right or unreadable. It never
// has an edge, whose batches it would move on.
func TestReadRevision(t *testing.T) {
	t.Parallel()
	id := hit.RulesIDOf([]byte("{}"))
	for name, tc := range map[string]struct {
		number, rules, body string
		shard               int
		ok                  bool
	}{
		"right":               {number: "7", rules: id.String(), ok: true},
		"the highest number":  {number: "99999999", rules: id.String(), ok: true},
		"a higher number":     {number: "100000000", rules: id.String()},
		"a huge number":       {number: "99999999999999999999", rules: id.String()},
		"number 0":            {number: "0", rules: id.String()},
		"a negative number":   {number: "-1", rules: id.String()},
		"no number":           {rules: id.String()},
		"something else":      {number: "7 or so", rules: id.String()},
		"no document":         {number: "7"},
		"a short document":    {number: "7", rules: id.Short()},
		"a long document":     {number: "7", rules: id.String() + "00"},
		"the zero document":   {number: "7", rules: hit.RulesID{}.String()},
		"no hexadecimal":      {number: "7", rules: "zz" + id.String()[2:]},
		"a body":              {number: "7", rules: id.String(), body: "{}"},
		"of another shard":    {number: "7", rules: id.String(), shard: 1},
		"nothing but a batch": {body: "batch"},
	} {
		headers := map[string]string{
			hit.HeaderRevision: tc.number, hit.HeaderRules: tc.rules,
			hit.HeaderSeq: "1", hit.HeaderLast: "9", hit.HeaderLow: "1", // have no meaning here
		}
		m := fold.Read(tc.shard, 1, t0, hit.Subject(0, hit.RulesSender), func(k string) string { return headers[k] }, []byte(tc.body))
		if (m.Err == nil) != tc.ok || m.Edge != "" || m.BatchSeq != 0 || len(m.Batches) != 0 || (m.Revision != 0) != tc.ok || (m.Rules == id) != tc.ok {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
