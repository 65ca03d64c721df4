package revisions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// maxCompiled bounds the compiled rules in memory.
const maxCompiled = 64

// Book is the history of an installation's rules. It connects with its first use,
// and creates the bucket if it is missing. It is safe for concurrent use.
type Book struct {
	conn     func() *nats.Conn
	replicas int
	poll     time.Duration // of a Keeper
	compiled *otter.Cache[hit.RulesID, *ruleset.Rules]

	mu     sync.Mutex
	open   *bucket
	latest latest
	top    uint64 // the highest number that this process has seen
}

// latest is what the last message of all revisions was at the last look. While it
// is the same, so are the revisions.
type latest struct {
	seq     uint64
	at      time.Time
	current Revision
}

// New returns a Book over the connection that conn returns, which may be nil as
// long as there is none. replicas is the number of servers that keep the bucket; 0
// leaves it as it is, which is 1 for a new bucket.
func New(conn func() *nats.Conn, replicas int) *Book {
	return &Book{
		conn: conn, replicas: replicas, poll: pollEvery,
		compiled: otter.Must(&otter.Options[hit.RulesID, *ruleset.Rules]{MaximumSize: maxCompiled}),
	}
}

// errDamaged means that the bucket does not return what it has stored.
var errDamaged = errors.New("the files of the bucket were damaged; a new bucket takes its place")

// PutDocument puts a document into the bucket, unless it is there undamaged. If the
// server stores documents and does not return them, PutDocument deletes the bucket
// and fails. A new bucket gets what processes and edges' disks still have.
func (b *Book) PutDocument(ctx context.Context, doc []byte) error {
	id := hit.RulesIDOf(doc)
	err := b.use(ctx, func(ctx context.Context, kv *bucket) error {
		for range 3 { // not once, because somebody else may delete it at the same time
			entry, err := kv.Get(ctx, documentKey(id))
			if err == nil && bytes.Equal(entry.Value(), doc) {
				return nil
			}
			if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
				return err
			}
			if _, err = kv.Put(ctx, documentKey(id), doc); err != nil {
				return err
			}
		}
		return errors.Join(errDamaged, kv.js.DeleteStream(ctx, streamName))
	})
	if err != nil {
		return fmt.Errorf("putting the document %s of rules into the broker: %w", id.Short(), err)
	}
	return nil
}

// Document returns a document. It fails with [ErrNoDocument] if the broker has no
// undamaged copy.
func (b *Book) Document(ctx context.Context, id hit.RulesID) (doc []byte, err error) {
	err = b.use(ctx, func(ctx context.Context, kv *bucket) error {
		entry, err := kv.Get(ctx, documentKey(id))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return ErrNoDocument
		}
		if err != nil {
			return err
		}
		if doc = entry.Value(); hit.RulesIDOf(doc) != id {
			return fmt.Errorf("%w: its copy is damaged", ErrNoDocument)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the document %s of rules: %w", id.Short(), err)
	}
	return doc, nil
}

// Rules returns the compiled rules of a document. It remembers the last ones that
// it returned. The zero id names the rules of the oldest revision. Rules fails with
// [ErrNoDocument] if the broker has no undamaged copy.
func (b *Book) Rules(ctx context.Context, id hit.RulesID) (*ruleset.Rules, error) {
	if id.IsZero() {
		all, err := b.Revisions(ctx)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, ErrNoRevision
		}
		id = all[0].Rules
	}
	if r, ok := b.compiled.GetIfPresent(id); ok {
		return r, nil
	}
	doc, err := b.Document(ctx, id)
	if err != nil {
		return nil, err
	}
	r, err := ruleset.ParseDocument(doc)
	if err != nil {
		return nil, err
	}
	b.compiled.Set(id, r)
	return r, nil
}

// Remember adds compiled rules to those in memory: [Book.Rules] returns them, and
// [Book.Restore] puts their document into the bucket, which may not have it yet.
func (b *Book) Remember(r *ruleset.Rules) { b.compiled.Set(r.ID(), r) }

// Restore puts the documents of all rules in memory back into the bucket, in case
// it has lost them.
func (b *Book) Restore(ctx context.Context) error {
	for r := range b.compiled.Values() {
		if err := b.PutDocument(ctx, r.Document()); err != nil {
			return err
		}
	}
	return nil
}

// AtLeast makes the numbers of new revisions higher than n. An aggregator reads from
// its store which revision the shards have in force, even if the bucket has lost it.
func (b *Book) AtLeast(n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.top = max(b.top, n)
}

// seen returns the highest number that this process knows.
func (b *Book) seen() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.top
}

// Current returns the current revision. Without any it fails with [ErrNoRevision].
func (b *Book) Current(ctx context.Context) (current Revision, err error) {
	err = b.use(ctx, func(ctx context.Context, kv *bucket) error {
		msg, err := kv.stream.GetLastMsgForSubject(ctx, subjectRoot+revisionPrefix+"*")
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return ErrNoRevision
		}
		if err != nil {
			return fmt.Errorf("reading the current revision of the rules: %w", err)
		}
		b.mu.Lock()
		known := b.latest
		b.mu.Unlock()
		if known.seq == msg.Sequence && known.at.Equal(msg.Time) {
			current = known.current
			return nil
		}
		// Usually msg is the current revision, but somebody may have removed it or
		// put an older one back.
		all, err := b.list(ctx, kv)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return ErrNoRevision
		}
		current = all[len(all)-1]
		b.mu.Lock()
		b.latest = latest{msg.Sequence, msg.Time, current}
		b.mu.Unlock()
		return nil
	})
	return current, err
}

// Revisions returns all revisions, the oldest first.
func (b *Book) Revisions(ctx context.Context) (all []Revision, err error) {
	err = b.use(ctx, func(ctx context.Context, kv *bucket) error {
		all, err = b.list(ctx, kv)
		return err
	})
	return all, err
}

func (b *Book) list(ctx context.Context, kv *bucket) (all []Revision, err error) {
	w, err := kv.Watch(ctx, revisionPrefix+"*", jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("reading the revisions of the rules: %w", err)
	}
	defer w.Stop() //nolint:errcheck // fails only when the connection is lost, which ends the watch
	for {
		select {
		case entry, ok := <-w.Updates():
			if !ok {
				return nil, fmt.Errorf("reading the revisions of the rules: %w", ErrNoConnection)
			}
			if entry == nil { // all have come
				slices.SortFunc(all, func(a, b Revision) int { return cmp.Compare(a.Number, b.Number) })
				if len(all) > 0 {
					b.AtLeast(all[len(all)-1].Number)
				}
				return all, nil
			}
			var r Revision
			if err := json.Unmarshal(entry.Value(), &r); err != nil || entry.Key() != revisionKey(r.Number) {
				return nil, fmt.Errorf("the entry %s of the bucket %s is not a revision of the rules: remove it (nats kv del %s %s) if no newer build wrote it",
					entry.Key(), hit.RulesBucket, hit.RulesBucket, entry.Key())
			}
			all = append(all, r)
		case <-ctx.Done():
			return nil, fmt.Errorf("reading the revisions of the rules: %w", ctx.Err())
		}
	}
}

// Add adds a revision after the one with the number after, 0 for the first one. It
// sets its time and its number: one higher than any that this process has seen, even
// if the bucket has lost that one. Add fails with [ErrConflict] if after is no longer
// the current revision, and with [ErrNoDocument] if the document is not in the bucket.
func (b *Book) Add(ctx context.Context, r Revision, after uint64) (Revision, error) {
	if _, err := b.Document(ctx, r.Rules); err != nil {
		return r, err
	}
	current, err := b.Current(ctx)
	if err != nil && !errors.Is(err, ErrNoRevision) {
		return r, err
	}
	if current.Number != after {
		return r, ErrConflict
	}
	if r.Number = max(after, b.seen()) + 1; r.Number > hit.MaxRevision {
		return r, fmt.Errorf("adding a revision of the rules: their numbers end at %d", hit.MaxRevision)
	}
	r.At = time.Now().UTC().Truncate(time.Millisecond)
	data, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	err = b.use(ctx, func(ctx context.Context, kv *bucket) error {
		_, err := kv.Create(ctx, revisionKey(r.Number), data)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrKeyExists):
		return r, ErrConflict
	case err != nil:
		return r, fmt.Errorf("adding revision %d of the rules: %w", r.Number, err)
	}
	b.AtLeast(r.Number)
	return r, nil
}

// attempts bounds how often Propose tries again after a conflict.
const attempts = 10

// Propose asks for rules to be in force, and returns the current revision and
// whether it has these rules. It adds a revision with them
//
//   - if there is none yet, or
//   - if the authority of source decides, and either no revision has had these
//     rules before, or the process was reloaded with them while it agreed with the
//     current revision, whose number is agreed (else 0).
//
// So a process that starts with an old configuration does not take rules back, and
// a second authority never wins by itself.
func (b *Book) Propose(ctx context.Context, r *ruleset.Rules, source Source, agreed uint64) (current Revision, ok bool, err error) {
	doc, id := r.Document(), r.ID()
	b.Remember(r)
	for range attempts {
		var all []Revision
		if all, err = b.Revisions(ctx); err != nil {
			return current, false, err
		}
		known := slices.ContainsFunc(all, func(r Revision) bool { return r.Rules == id })
		current = Revision{}
		if len(all) > 0 {
			current = all[len(all)-1]
		}
		switch {
		case current.Rules == id:
			return current, true, b.PutDocument(ctx, doc)
		case current.Number == 0:
		case current.Authority != source.Authority, known && current.Number != agreed:
			return current, false, nil
		}
		if err = b.PutDocument(ctx, doc); err != nil {
			return current, false, err
		}
		next := Revision{Rules: id, Authority: source.Authority, By: source.By, From: source.From}
		if r.Bots != nil {
			next.BotsFile = r.Bots.File
		}
		var added Revision
		if added, err = b.Add(ctx, next, current.Number); err == nil {
			return added, true, nil
		}
		if !errors.Is(err, ErrConflict) {
			return current, false, err
		}
	}
	return current, false, err
}
