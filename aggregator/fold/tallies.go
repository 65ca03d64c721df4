package fold

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// tallies is the working memory of one fold: all stored values of the items in the
// messages. The fold goes through the hits twice: it first collects what to read
// (want), and then counts hit by hit in the order of the log.
//
// The work for each hit is kept cheap (an item is checked and hashed once, its
// values are adjacent in memory), because it is most of the cost of counting.
type tallies struct {
	folder *Folder
	shard  int
	hits   map[ListReason]int

	documents map[hit.RulesID]*document
	inForce   *ruleset.Rules

	pending []pending
	quotas  []quota // of the pending votes
	lists   map[string]*listWork
	sets    map[store.Set]*setWork

	memos   []store.Memo
	values  []int64 // of memos
	changed []bool  // of values

	shadowed map[Shadowed]int
	shadows  []*ruleset.Limit // limits in shadow that would have refused the current vote
	verdicts []Verdict
	used     []int        // indexes into quotas: one for each memo that edges learn of
	told     map[int]bool // those memos
}

// pending is a hit that will be counted.
type pending struct {
	hit  *hit.Hit
	time int64 // clamped
	list *ruledList
	item *itemWork
	sets []*setWork // periods of the list's boards, then All, then the score set
	// Indexes into values of the visitor's last counted time, in the day of the hit
	// and in the neighbouring days if the deduplication window reaches into them, else
	// -1.
	today, before, after int
	// The range of the hit's quotas in the tallies.
	quotasFrom, quotasTo int
}

// setWork is one set with the items that the fold touches.
type setWork struct {
	set    store.Set
	period calendar.Period // "" for a score set
	start  time.Time
	want   []string
	cells  []*cell

	totals   store.Totals
	touched  bool
	visitors []uint64
	halved   int // whole half-lives that the landmark moved
}

// cell is the value of one item in one set.
type cell struct {
	set     *setWork
	tally   store.Tally
	changed bool
}

type itemWork struct {
	id      string
	hash    uint64
	rec     store.Item
	cells   []*cell
	changed bool
	// published is true when the publish time differs from the store's.
	published bool
	placed    [hit.Vote + 1]bool // whether the item belongs to the shard, by kind
	// room holds the first cells: all of them for an item whose hits are in the same
	// periods.
	room [7]cell
}

func (i *itemWork) cell(s *setWork) *cell {
	for _, c := range i.cells {
		if c.set == s {
			return c
		}
	}
	c := new(cell)
	if n := len(i.cells); n < len(i.room) {
		c = &i.room[n]
	}
	c.set = s
	i.cells = append(i.cells, c)
	s.cells = append(s.cells, c)
	s.want = append(s.want, i.id)
	return c
}

// newTallies returns the memory for folding n hits.
func newTallies(f *Folder, shard, n int, hits map[ListReason]int) *tallies {
	return &tallies{
		folder: f, shard: shard, hits: hits,
		documents: map[hit.RulesID]*document{},
		pending:   make([]pending, 0, n),
		memos:     make([]store.Memo, 0, n),
		lists:     map[string]*listWork{}, sets: map[store.Set]*setWork{},
		shadowed: map[Shadowed]int{}, told: map[int]bool{},
	}
}

// want takes in a hit and queues the values that it needs. It ends invalid hits
// with their reason.
func (t *tallies) want(d *document, h *hit.Hit, received time.Time) {
	rl := t.list(d, h.List)
	if rl == nil {
		reason := ruleset.UnknownList
		if h.Valid() != nil {
			reason = ruleset.Invalid
		}
		t.decide("", h, reason, "")
		return
	}
	item := rl.items[h.Item]
	if h.Kind != rl.list.Kind() || (item == nil || !item.placed[h.Kind]) && t.misplaced(h) || h.ValidFields() != nil {
		t.decide("", h, ruleset.Invalid, "")
		return
	}
	ms := min(h.Time, received.UnixMilli()+MaxAhead.Milliseconds())
	if rl.list.Votes != nil {
		if reason := rl.list.CheckVote(h.Item, time.UnixMilli(ms)); reason != "" {
			t.decide(h.List, h, reason, "")
			return
		}
	}
	if item == nil {
		f := fnv.New64a()
		f.Write([]byte(h.Item))
		item = &itemWork{id: h.Item, hash: f.Sum64()}
		item.cells = make([]*cell, 0, len(item.room))
		rl.items[h.Item] = item
	}
	item.placed[h.Kind] = true

	t.turnTo(rl, rl.list.Starts(ms))
	p := pending{hit: h, time: ms, list: rl, item: item, sets: rl.periods, before: -1, after: -1}
	for _, s := range p.sets {
		item.cell(s)
	}
	pair := pairOf(item.hash, h.Visitor)
	if h.Kind == hit.Vote {
		pair = mix(pair) // a list of views may have had the name before
	}
	p.today = t.memo(rl, rl.day, pair)
	window := time.Duration(rl.list.Dedup).Milliseconds()
	if ms-window < rl.day.start*1000 {
		p.before = t.memo(rl, rl.dayAt(rl.day.start, -1), pair)
	}
	if ms+window >= rl.nextDay {
		p.after = t.memo(rl, rl.term(calendar.Day, time.UnixMilli(rl.nextDay)), pair)
	}
	p.quotasFrom = len(t.quotas)
	if h.Kind == hit.Vote {
		t.wantQuotas(&p)
	}
	p.quotasTo = len(t.quotas)
	t.pending = append(t.pending, p)
}

// decide records the verdict on a hit. limit is the limit that refused it. list is
// empty for a hit without a known list.
func (t *tallies) decide(list string, h *hit.Hit, reason ruleset.Reason, limit string) {
	t.hits[ListReason{List: list, Reason: reason}]++
	if h.Confirm != 0 {
		t.verdicts = append(t.verdicts, Verdict{Confirm: h.Confirm, List: list, Item: h.Item, Reason: reason, Limit: limit})
	}
}

// misplaced reports whether an item's id is invalid, or belongs to another shard.
func (t *tallies) misplaced(h *hit.Hit) bool {
	return hit.ValidID(h.Item) != nil || hit.Shard(h.Kind, h.List, h.Item, t.folder.Store.Shards()) != t.shard
}

func (t *tallies) setWork(set store.Set, p calendar.Period, start time.Time) *setWork {
	s := t.sets[set]
	if s == nil {
		s = &setWork{set: set, period: p, start: start}
		t.sets[set] = s
	}
	return s
}

// read reads all queued values from the store, which must be at the position before
// the messages. The guard of a commit compares positions only: without this check,
// a store that another aggregator moved on during the read, and that was then
// rolled back, would accept values computed from the wrong ones.
func (t *tallies) read(ctx context.Context, from store.Position) error {
	if len(t.pending) == 0 {
		return nil
	}
	w := store.Want{Memos: t.memos, Items: map[string][]string{}, Scores: map[store.Set][]string{}}
	order := map[string][]*itemWork{}
	for name, lw := range t.lists {
		for id, iw := range lw.items {
			w.Items[name] = append(w.Items[name], id)
			order[name] = append(order[name], iw)
		}
	}
	var totals []*setWork
	for set, s := range t.sets {
		if len(s.want) > 0 {
			w.Scores[set] = s.want
		}
		w.Totals = append(w.Totals, set)
		totals = append(totals, s)
	}
	have, err := t.folder.Store.Read(ctx, t.shard, &w)
	if err != nil {
		return err
	}
	if err := samePosition(have, from); err != nil {
		return err
	}
	t.values, t.changed = have.Memos, make([]bool, len(have.Memos))
	for name, recs := range have.Items {
		for i, rec := range recs {
			order[name][i].rec = rec
		}
	}
	for set, values := range have.Scores {
		for i, v := range values {
			t.sets[set].cells[i].tally = v
		}
	}
	for i, v := range have.Totals {
		totals[i].totals = v
	}
	return nil
}

// samePosition returns [store.ErrConflict] unless a read found the shard at from.
func samePosition(have *store.Have, from store.Position) error {
	if have.Position != from {
		return fmt.Errorf("%w: the store is at message %d, not %d", store.ErrConflict, have.Position.Seq, from.Seq)
	}
	return nil
}
