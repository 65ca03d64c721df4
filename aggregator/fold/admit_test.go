package fold_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

func TestWhichBatchesAreApplied(t *testing.T) {
	t.Parallel()
	type msg struct {
		seq, low uint64
		poison   bool
		more     uint64 // batches in the message beside the first
		bad      int    // number of the unreadable one, from 1; 0: none
		newer    int    // number of the one of version 9, from 1; 0: none
	}
	for name, tc := range map[string]struct {
		applied  uint64 // before the messages
		msgs     []msg
		inLog    fold.InLog // what FirstInLog finds
		counted  int
		after    uint64
		held     []fold.Held
		lost     []fold.Gap
		poisoned []int
		skipped  int
		rewind   bool
	}{
		"in order":                      {msgs: []msg{{seq: 1, low: 1}, {seq: 2, low: 1}}, counted: 2, after: 2},
		"sent twice":                    {applied: 1, msgs: []msg{{seq: 1, low: 1}, {seq: 2, low: 1}, {seq: 2, low: 1}}, counted: 1, after: 2, skipped: 2},
		"one is missing":                {msgs: []msg{{seq: 2, low: 1}, {seq: 3, low: 1}}, held: []fold.Held{{Edge: "e1", Next: 1, Seq: 2}, {Edge: "e1", Next: 1, Seq: 3}}},
		"and comes":                     {msgs: []msg{{seq: 2, low: 1}, {seq: 1, low: 1}, {seq: 2, low: 1}}, counted: 2, after: 2, held: []fold.Held{{Edge: "e1", Next: 1, Seq: 2}}},
		"the edge has dropped it":       {applied: 3, msgs: []msg{{seq: 9, low: 7}}, inLog: fold.InLog{Batch: 9}, counted: 1, after: 9, lost: []fold.Gap{{Edge: "e1", From: 4, To: 8}}},
		"but the log still has it":      {applied: 3, msgs: []msg{{seq: 8, low: 1}, {seq: 9, low: 7}, {seq: 10, low: 7}}, inLog: fold.InLog{Batch: 4}, after: 3, held: []fold.Held{{Edge: "e1", Next: 4, Seq: 8}}, rewind: true},
		"or will still come to it":      {applied: 3, msgs: []msg{{seq: 9, low: 7}, {seq: 4, low: 1}}, inLog: fold.InLog{Batch: 4, At: 2}, counted: 1, after: 4, held: []fold.Held{{Edge: "e1", Next: 4, Seq: 9}}},
		"or a part of it":               {applied: 3, msgs: []msg{{seq: 9, low: 7}}, inLog: fold.InLog{Batch: 6}, after: 5, lost: []fold.Gap{{Edge: "e1", From: 4, To: 5}}, rewind: true},
		"one cannot be read":            {msgs: []msg{{seq: 1, low: 1}, {seq: 2, low: 1, poison: true}, {seq: 3, low: 1}}, counted: 2, after: 3, poisoned: []int{1}},
		"a stray one cannot be read":    {applied: 1, msgs: []msg{{seq: 7, low: 1, poison: true}, {seq: 2, low: 1}}, counted: 1, after: 2, poisoned: []int{0}},
		"an old one cannot be read":     {applied: 1, msgs: []msg{{seq: 1, low: 1, poison: true}, {seq: 2, low: 1}}, counted: 1, after: 2, poisoned: []int{0}},
		"several in a message":          {msgs: []msg{{seq: 1, low: 1, more: 2}, {seq: 4, low: 1, more: 1}}, counted: 5, after: 5},
		"sent with others beside them":  {applied: 1, msgs: []msg{{seq: 1, low: 1, more: 1}, {seq: 2, low: 1, more: 2}}, counted: 3, after: 4, skipped: 2},
		"the first of them is missing":  {msgs: []msg{{seq: 2, low: 1, more: 5}, {seq: 1, low: 1}}, counted: 1, after: 1, held: []fold.Held{{Edge: "e1", Next: 1, Seq: 2}}},
		"dropped up to the middle":      {applied: 3, msgs: []msg{{seq: 7, low: 7, more: 1}}, inLog: fold.InLog{Batch: 7}, counted: 2, after: 8, lost: []fold.Gap{{Edge: "e1", From: 4, To: 6}}},
		"several cannot be read":        {applied: 1, msgs: []msg{{seq: 1, low: 1, poison: true, more: 3}, {seq: 4, low: 1, more: 1}}, counted: 1, after: 5, poisoned: []int{0}, skipped: 1},
		"one of several cannot be read": {msgs: []msg{{seq: 1, low: 1, more: 2, bad: 2}, {seq: 4, low: 1}}, counted: 3, after: 4, poisoned: []int{0}},
		"one is of a newer version":     {msgs: []msg{{seq: 1, low: 1}, {seq: 2, low: 1, newer: 1}, {seq: 3, low: 1}}, counted: 1, after: 1, held: []fold.Held{{Edge: "e1", Next: 2, Seq: 2, Version: 9}, {Edge: "e1", Next: 2, Seq: 3}}},
		"one of several is newer":       {msgs: []msg{{seq: 1, low: 1, more: 3, newer: 3}}, counted: 2, after: 2, held: []fold.Held{{Edge: "e1", Next: 3, Seq: 3, Version: 9}}},
		"a newer one is behind a gap":   {msgs: []msg{{seq: 2, low: 1, newer: 1}}, held: []fold.Held{{Edge: "e1", Next: 1, Seq: 2, Version: 9}}},
		"a newer one was applied":       {applied: 3, msgs: []msg{{seq: 3, low: 1, more: 1, newer: 1}}, counted: 1, after: 4, skipped: 1},
		"a newer one after what's lost": {applied: 3, msgs: []msg{{seq: 9, low: 7, newer: 1}}, inLog: fold.InLog{Batch: 9, At: 1, Version: 9}, after: 8, lost: []fold.Gap{{Edge: "e1", From: 4, To: 8}}, held: []fold.Held{{Edge: "e1", Next: 9, Seq: 9, Version: 9}}},
		"the log has a newer one":       {applied: 3, msgs: []msg{{seq: 4, low: 1, newer: 1}, {seq: 9, low: 7}, {seq: 10, low: 7}}, inLog: fold.InLog{Batch: 4, At: 1, Version: 9}, after: 3, held: []fold.Held{{Edge: "e1", Next: 4, Seq: 4, Version: 9}, {Edge: "e1", Next: 4, Seq: 4, Version: 9}, {Edge: "e1", Next: 4, Seq: 4, Version: 9}}},
		"and lacks some before it":      {applied: 3, msgs: []msg{{seq: 6, low: 1, newer: 1}, {seq: 9, low: 7}}, inLog: fold.InLog{Batch: 6, At: 1, Version: 9}, after: 5, lost: []fold.Gap{{Edge: "e1", From: 4, To: 5}}, held: []fold.Held{{Edge: "e1", Next: 4, Seq: 6, Version: 9}, {Edge: "e1", Next: 6, Seq: 6, Version: 9}}},
		"what was skipped is not lost":  {applied: 9, msgs: []msg{{seq: 8, low: 8}, {seq: 10, low: 10}}, counted: 1, after: 10, skipped: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLog(t, memstore.New(1), &ruleset.ListConfig{Name: "a"})
			var msgs []fold.Message
			for i, m := range tc.msgs {
				batches := [][]hit.Hit{{view(fmt.Sprint("item", i), 1, t0)}}
				for j := range m.more {
					batches = append(batches, []hit.Hit{view(fmt.Sprint("item", i, "-", j), 1, t0)})
				}
				msg := l.message(0, "e1", m.seq, m.low, batches...)
				if m.poison {
					msg.Batches, msg.Err = nil, errors.New("poison")
				}
				if m.bad > 0 {
					msg.Batches[m.bad-1], msg.Err = nil, errors.New("poison")
				}
				if m.newer > 0 {
					msg.Batches[m.newer-1] = &hit.Batch{Version: 9, Edge: "e1", Seq: m.seq + uint64(m.newer) - 1}
				}
				msgs = append(msgs, msg)
			}
			asked := map[uint64]int{}
			f := &fold.Folder{Rules: l.rulesOf, Store: l.store, First: func(_ context.Context, _ int, _ string, next uint64) (fold.InLog, error) {
				if asked[next]++; asked[next] > 1 {
					t.Errorf("the log is searched %d times for what follows batch %d", asked[next], next-1)
				}
				return tc.inLog, nil
			}}
			state := store.State{Edges: map[string]uint64{"e1": tc.applied}}
			res, err := f.Fold(t.Context(), 0, state, msgs)
			if err != nil {
				t.Fatal(err)
			}
			fold.Advance(&state, res.Commit)
			type outcome struct {
				Counted  int
				After    uint64
				Held     []fold.Held
				Lost     []fold.Gap
				Poisoned []int
				Skipped  int
				Rewind   bool
			}
			got := outcome{res.Hits[fold.ListReason{List: "a", Reason: ruleset.Counted}], state.Edges["e1"], res.Held, res.Lost, res.Poisoned, res.Skipped, res.Rewind}
			want := outcome{tc.counted, tc.after, tc.held, tc.lost, tc.poisoned, tc.skipped, tc.rewind}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			last := msgs[len(msgs)-1]
			state.Position.Version = 0
			if tc.rewind && state.Position != (store.Position{}) {
				t.Errorf("the position is %+v, want the beginning of the log", state.Position)
			} else if !tc.rewind && state.Position != (store.Position{Seq: last.Seq, Fingerprint: fold.Fingerprint(last.Subject, last.Received, last.Data)}) {
				t.Errorf("the position is %+v, want that of message %d", state.Position, last.Seq)
			}
		})
	}
}
