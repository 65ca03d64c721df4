package fold

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// tallies is the working memory of one fold: everything that the store keeps of
// the items that the messages touch. Hits are first only looked at, to learn
// what to read (want), and then counted one by one in the order of the log.
//
// What is done for each hit is kept cheap (an item is checked and hashed once,
// its values lie together), because this is most of what counting costs.
type tallies struct {
	folder *Folder
	shard  int
	hits   map[Outcome]int

	pending []pending
	lists   map[string]*listWork
	keys    []store.Seen
	seenAt  []int64
	changed []bool // of seenAt
	sets    map[store.Set]*setWork
}

// pending is a hit that is going to be counted.
type pending struct {
	hit  *hit.Hit
	time int64 // clamped
	list *listWork
	item *itemWork
	sets []*setWork // periods of the list's boards, then All, then the score set
	// Indexes into seenAt: the day of the hit, and the neighbouring days when the
	// deduplication window reaches into them, else -1.
	today, before, after int
}

type listWork struct {
	list  *ruleset.List
	items map[string]*itemWork
	seen  map[int64]*seenDay // by the beginning of the day, in seconds
	all   *setWork
	score *setWork // nil when the model adds nothing up

	// What belongs to the starts that were last asked for: hits come nearly in order.
	starts  *ruleset.Starts
	periods []*setWork
	day     *seenDay
	nextDay int64 // milliseconds

	// Newest hit before this fold, and the oldest period of each kind that is
	// kept, as of the newest hit so far.
	newestBefore int64
	keptStarts   *ruleset.Starts
	kept         map[ruleset.Period]time.Time
	halved       int // whole half-lives that the score set's landmark moved
}

// seenDay holds the pairs of one day, with their index into keys and seenAt.
type seenDay struct {
	start time.Time
	pairs map[uint64]int
}

// setWork is one set with the items of it that are touched.
type setWork struct {
	set    store.Set
	period ruleset.Period // "" for a score set
	start  time.Time
	want   []string
	cells  []*cell

	totals   store.Totals
	touched  bool
	visitors []uint64
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
	// published says that the publish time is not what the store has.
	published bool
	// room is where the first cells lie: all of those of an item whose hits are
	// in the same periods.
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
func newTallies(f *Folder, shard, n int, hits map[Outcome]int) *tallies {
	return &tallies{
		folder: f, shard: shard, hits: hits,
		pending: make([]pending, 0, n),
		keys:    make([]store.Seen, 0, n),
		lists:   map[string]*listWork{}, sets: map[store.Set]*setWork{},
	}
}

// want takes in a hit and notes what has to be known to count it. A hit that
// cannot be counted ends here, with its reason.
func (t *tallies) want(h *hit.Hit, received time.Time) {
	lw := t.list(h.List)
	if lw == nil {
		reason := ruleset.UnknownList
		if h.Valid() != nil {
			reason = ruleset.Invalid
		}
		t.hits[Outcome{Reason: reason}]++
		return
	}
	item := lw.items[h.Item]
	if item == nil && t.misplaced(h) || h.ValidFields() != nil {
		t.hits[Outcome{Reason: ruleset.Invalid}]++
		return
	}
	if item == nil {
		f := fnv.New64a()
		f.Write([]byte(h.Item))
		item = &itemWork{id: h.Item, hash: f.Sum64()}
		item.cells = make([]*cell, 0, len(item.room))
		lw.items[h.Item] = item
	}

	ms := min(h.Time, received.UnixMilli()+MaxAhead.Milliseconds())
	t.turnTo(lw, lw.list.Starts(ms))
	p := pending{hit: h, time: ms, list: lw, item: item, sets: lw.periods, before: -1, after: -1}
	for _, s := range p.sets {
		item.cell(s)
	}
	pair := pairOf(item.hash, h.Visitor)
	p.today = t.seenIndex(lw, lw.day, pair)
	window := time.Duration(lw.list.Dedup).Milliseconds()
	if ms-window < lw.day.start.UnixMilli() {
		p.before = t.seenIndex(lw, lw.dayOf(ruleset.Day.Add(lw.day.start, -1, lw.list.Location())), pair)
	}
	if ms+window >= lw.nextDay {
		p.after = t.seenIndex(lw, lw.dayOf(time.UnixMilli(lw.nextDay)), pair)
	}
	t.pending = append(t.pending, p)
}

// misplaced reports whether an item's id is not valid, or belongs to another shard.
func (t *tallies) misplaced(h *hit.Hit) bool {
	return hit.ValidID(h.Item) != nil || hit.Shard(h.List, h.Item, t.folder.Shards) != t.shard
}

func (t *tallies) list(name string) *listWork {
	lw, ok := t.lists[name]
	if ok {
		return lw
	}
	if l := t.folder.Rules.List(name); l != nil {
		lw = &listWork{list: l, items: map[string]*itemWork{}, seen: map[int64]*seenDay{}}
		lw.all = t.setWork(board.AllSet(name), ruleset.All, time.Time{})
		if set, ok := board.ScoreSet(l); ok {
			lw.score = t.setWork(set, "", time.Time{})
		}
	}
	t.lists[name] = lw
	return lw
}

func (t *tallies) setWork(set store.Set, p ruleset.Period, start time.Time) *setWork {
	s := t.sets[set]
	if s == nil {
		s = &setWork{set: set, period: p, start: start}
		t.sets[set] = s
	}
	return s
}

// turnTo makes periods, day and nextDay of the list those that begin at starts.
func (t *tallies) turnTo(lw *listWork, starts *ruleset.Starts) {
	if lw.starts == starts {
		return
	}
	var sets []*setWork
	for _, p := range lw.list.Boards {
		if p != ruleset.All {
			start := starts.Of(p)
			sets = append(sets, t.setWork(board.PeriodSet(lw.list.Name, p, start), p, start))
		}
	}
	sets = append(sets, lw.all)
	if lw.score != nil {
		sets = append(sets, lw.score)
	}
	day := starts.Of(ruleset.Day)
	lw.starts, lw.periods, lw.day = starts, sets, lw.dayOf(day)
	lw.nextDay = ruleset.Day.Add(day, 1, lw.list.Location()).UnixMilli()
}

func (lw *listWork) dayOf(start time.Time) *seenDay {
	d := lw.seen[start.Unix()]
	if d == nil {
		d = &seenDay{start: start, pairs: map[uint64]int{}}
		lw.seen[start.Unix()] = d
	}
	return d
}

func (t *tallies) seenIndex(lw *listWork, day *seenDay, pair uint64) int {
	i, ok := day.pairs[pair]
	if !ok {
		i = len(t.keys)
		t.keys = append(t.keys, store.Seen{List: lw.list.Name, Day: day.start.Unix(), Pair: pair})
		day.pairs[pair] = i
	}
	return i
}

// pairOf mixes the hash of an item with a visitor. The visitor is a keyed hash already, so
// nobody outside can look for collisions; SplitMix64's finaliser (Steele et al.,
// OOPSLA 2014) spreads both over all bits.
func pairOf(item, visitor uint64) uint64 { return mix(item + mix(visitor)) }

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// read asks the store for everything that want noted. The store has to be at
// the position that the messages follow: a commit is guarded by the position
// alone, and a store that another aggregator moved on while this was read, and
// that was then taken back, would accept values that were computed from the
// wrong ones.
func (t *tallies) read(ctx context.Context, from store.Position) error {
	if len(t.pending) == 0 {
		return nil
	}
	w := store.Want{Seen: t.keys, Items: map[string][]string{}, Scores: map[store.Set][]string{}}
	order := map[string][]*itemWork{}
	for name, lw := range t.lists {
		if lw == nil {
			continue
		}
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
	if have.Position != from {
		return fmt.Errorf("%w: it is at message %d, not %d", store.ErrConflict, have.Position.Seq, from.Seq)
	}
	t.seenAt, t.changed = have.Seen, make([]bool, len(have.Seen))
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
	for _, lw := range t.lists {
		if lw != nil {
			lw.newestBefore = lw.all.totals.Newest
		}
	}
	return nil
}

// count counts the pending hits in order.
func (t *tallies) count() {
	for i := range t.pending {
		p := &t.pending[i]
		lw := p.list
		if p.time > lw.all.totals.Newest {
			lw.all.totals.Newest = p.time
		}
		lw.keep()
		reason := ruleset.Counted
		if t.duplicate(p) {
			reason = ruleset.Duplicate
			p.item.rec.Duplicates++
			p.item.changed = true
			for _, s := range p.sets {
				if lw.keeps(s) && s != lw.score {
					s.totals.Duplicates++
					s.touched = true
				}
			}
		} else {
			t.countOne(p)
		}
		t.hits[Outcome{List: lw.list.Name, Reason: reason}]++
	}
}

// duplicate reports whether the visitor's last counted hit of the item is less
// than the window away. A late hit may come before it.
func (t *tallies) duplicate(p *pending) bool {
	window := time.Duration(p.list.list.Dedup).Milliseconds()
	for _, i := range [...]int{p.today, p.before, p.after} {
		if i < 0 || t.seenAt[i] == store.NotSeen {
			continue
		}
		if d := p.time - t.seenAt[i]; -window < d && d < window {
			return true
		}
	}
	return false
}

func (t *tallies) countOne(p *pending) {
	lw, rec := p.list, &p.item.rec
	unique := t.seenAt[p.today] == store.NotSeen
	if t.seenAt[p.today] < p.time {
		t.seenAt[p.today] = p.time
		t.changed[p.today] = true
	}
	p.item.changed = true
	wasPublished := rec.PublishTime()
	if rec.First == 0 || p.time < rec.First {
		rec.First = p.time
	}
	rec.Last = max(rec.Last, p.time)
	publish(rec, p.hit, p.time)
	if rec.PublishTime() != wasPublished {
		p.item.published = true
	}

	var uniques int64
	if unique {
		uniques = 1
	}
	for _, s := range p.sets {
		if !lw.keeps(s) {
			continue
		}
		c := p.item.cell(s)
		c.changed = true
		s.touched = true
		if s == lw.score {
			lw.addScore(c, rec, p.time, board.Points(*lw.list.Weights, 1, float64(uniques)))
			continue
		}
		c.tally.Score++
		c.tally.Uniques += uniques
		s.totals.Views++
		s.totals.Uniques += uniques
		s.totals.Newest = max(s.totals.Newest, p.time)
		if unique {
			s.visitors = append(s.visitors, p.hit.Visitor)
		}
	}
}

// publish takes over what a hit says of the publish time. The origin may correct
// itself; a client is believed once, and only if the time is not after its hit.
func publish(rec *store.Item, h *hit.Hit, at int64) {
	switch h.PublishedFrom {
	case hit.FromOrigin:
	case hit.FromClient:
		if rec.PublishedFrom != hit.FromFirstHit || h.Published > at {
			return
		}
	default:
		return
	}
	if h.Published > 0 {
		rec.Published, rec.PublishedFrom = h.Published, h.PublishedFrom
	}
}

// addScore adds a counted hit worth inc points to an item's sum.
func (lw *listWork) addScore(c *cell, rec *store.Item, at int64, inc float64) {
	score := &lw.list.Score
	if score.Model == ruleset.Accumulate {
		c.tally.Score += inc * board.Decay(board.Age(at, rec.PublishTime()), score.Base, score.Gamma)
		return
	}
	h := time.Duration(score.HalfLife).Milliseconds()
	landmark := &lw.score.totals.Landmark
	if *landmark == 0 {
		*landmark = at
	}
	if k := (at - *landmark) / h; k > board.MaxExponent {
		for _, other := range lw.score.cells {
			other.tally.Score = math.Ldexp(other.tally.Score, -int(k))
		}
		*landmark += k * h
		lw.halved += int(k)
	}
	c.tally.Score += inc * board.HalfLifeWeight(at, *landmark, h)
}

// keep works out which periods are kept, as of the newest hit so far.
func (lw *listWork) keep() {
	starts := lw.list.Starts(lw.all.totals.Newest)
	if lw.keptStarts != nil && *starts == *lw.keptStarts {
		return
	}
	lw.keptStarts = starts
	lw.kept = map[ruleset.Period]time.Time{}
	for _, p := range lw.list.Boards {
		if p != ruleset.All {
			lw.kept[p] = p.Add(starts.Of(p), -lw.list.Keep[p], lw.list.Location())
		}
	}
}

func (lw *listWork) keeps(s *setWork) bool {
	from, bounded := lw.kept[s.period]
	return !bounded || !s.start.Before(from)
}

// write puts what changed into the commit.
func (t *tallies) write(c *store.Commit) {
	c.Items = map[string]map[string]store.Item{}
	c.Scores = map[store.Set]map[string]store.Tally{}
	c.Totals = map[store.Set]store.Totals{}
	c.Visitors = map[store.Set][]uint64{}
	c.Scale = map[store.Set]int{}
	for i, k := range t.keys {
		if t.changed != nil && t.changed[i] {
			c.Seen = append(c.Seen, store.SeenAt{Seen: k, Time: t.seenAt[i]})
		}
	}
	for name, lw := range t.lists {
		if lw == nil {
			continue
		}
		c.Items[name] = make(map[string]store.Item, len(lw.items))
		published := map[string]store.Tally{}
		for id, iw := range lw.items {
			if iw.changed {
				c.Items[name][id] = iw.rec
			}
			if iw.published {
				published[id] = store.Tally{Score: float64(iw.rec.PublishTime())}
			}
		}
		if len(published) > 0 {
			c.Scores[board.PublishedSet(name)] = published
		}
		if lw.halved > 0 {
			c.Scale[lw.score.set] = -lw.halved
		}
		if lw.all.totals.Newest != lw.newestBefore {
			lw.all.touched = true
		}
		c.Drop = append(c.Drop, lw.drop()...)
	}
	for set, s := range t.sets {
		lw := t.lists[set.List]
		if !s.touched || !lw.keeps(s) {
			continue
		}
		c.Totals[set] = s.totals
		if len(s.visitors) > 0 {
			c.Visitors[set] = s.visitors
		}
		values := make(map[string]store.Tally, len(s.cells))
		for i, cell := range s.cells {
			if cell.changed {
				values[s.want[i]] = cell.tally
			}
		}
		if len(values) > 0 {
			c.Scores[set] = values
		}
	}
}

// drop returns the sets of the periods that were kept before this fold and are
// not any more.
func (lw *listWork) drop() []store.Set {
	l := lw.list
	if lw.newestBefore == 0 || lw.newestBefore == lw.all.totals.Newest {
		return nil
	}
	var sets []store.Set
	before := *l.Starts(lw.newestBefore)
	for p, from := range lw.kept {
		start := p.Add(before.Of(p), -l.Keep[p], l.Location())
		// Never more than were kept, however far the newest hit has jumped.
		for n := 0; n <= l.Keep[p] && start.Before(from); n++ {
			sets = append(sets, board.PeriodSet(l.Name, p, start))
			start = p.Add(start, 1, l.Location())
		}
	}
	return sets
}
