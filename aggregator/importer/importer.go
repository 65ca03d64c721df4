// Package importer counts access logs: it reads a log through the same rules
// that an edge judges requests by, and publishes the views as an edge does.
//
// To the aggregator every log is an edge of its own for each list, whose
// identity is a hash of the content, and whose batches depend on nothing but the
// lines and the rules. So a log that is imported twice, or was broken off, is
// counted once; and a list that is added to the rules later can be imported later.
// On a list of bots, every list of pages has an identity of its own.
package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/accesslog"
	"github.com/hotboard/hotboard/ruleset/bots"
)

// linesPerBatch is how many lines of a log make one batch for each shard,
// however few of them are views. It is part of what makes two imports of one log
// the same, so it never changes. One line is at most one view of a route.
const linesPerBatch = hit.MaxHits

// Options say what an import works with.
type Options struct {
	// Conn is a connection to the broker that keeps the log of hits.
	Conn *nats.Conn
	// Rules say what a view is.
	Rules *ruleset.Ruleset
	// Patterns, when given, are those of the file that the rules for bots name.
	Patterns *bots.Patterns
	// List, when given, is the only list that is counted.
	List string
	// WithoutBotsCheck counts requests as people's where the log does not name their
	// User-Agents. Otherwise such a log is refused with [ErrNoUserAgents].
	WithoutBotsCheck bool
	// Progress, when given, is called now and then, from one goroutine at a time.
	Progress func(Progress)
}

// Progress is how far an import is.
type Progress struct {
	Lines int // read so far
	// Published and Counted are batches that the log has, and of those the ones
	// that are in the counts. Batches is how many there are; 0 while the log is
	// being read for the first time.
	Published, Counted, Batches int
	// Waiting says why it does not go on, for a person; empty when it does.
	Waiting string
}

// ErrNoLog says that the broker has no log of hits.
var ErrNoLog = errors.New("there is no log of hits yet; start an aggregator once, which makes it")

// Import counts a log, and returns when all of it is in the counts. A broker or
// aggregator that is away is waited for, until ctx is done. Of a log that is refused
// with [ErrUnreadable] or [ErrNoUserAgents], nothing is imported.
func Import(ctx context.Context, o Options, log io.ReadSeeker) (*Summary, error) {
	im, err := begin(ctx, o)
	if err != nil {
		return nil, err
	}
	content, lines, err := fingerprint(log)
	if err != nil {
		return nil, err
	}
	im.batches = uint64((lines + linesPerBatch - 1) / linesPerBatch)
	if im.judge, err = newJudge(o, content); err != nil {
		return nil, err
	}
	if err := im.survey(ctx, log); err != nil {
		return nil, err
	}
	if im.judge, err = newJudge(o, content); err != nil { // with an empty summary
		return nil, err
	}
	for _, r := range im.judge.routes {
		p := &producer{list: r.counts.Name, edge: edgeID(content, r.name())}
		if p.applied, err = im.applied(ctx, p.edge); err != nil {
			return nil, err
		}
		im.producers = append(im.producers, p)
	}
	already := im.counted() == im.total()
	if err := im.publish(ctx, log); err != nil {
		return nil, err
	}
	if err := im.wait(ctx); err != nil {
		return nil, err
	}
	s := im.judge.summary
	s.Already = already && im.total() > 0
	return &s, nil
}

// begin waits for the broker and returns a run without producers.
func begin(ctx context.Context, o Options) (*run, error) {
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, fmt.Errorf("using JetStream: %w", err)
	}
	im := &run{Options: o, js: js}
	if im.Progress == nil {
		im.Progress = func(Progress) {}
	}
	for began := time.Now(); !o.Conn.IsConnected(); {
		if time.Since(began) > 2*time.Second {
			im.report("NATS cannot be reached")
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return nil, fmt.Errorf("connecting to NATS: %w", ctx.Err())
		}
	}
	im.shards, err = shards(ctx, js)
	return im, err
}

// shards returns how many shards the log of hits has.
func shards(ctx context.Context, js jetstream.JetStream) (int, error) {
	stream, err := js.Stream(ctx, hit.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, ErrNoLog
	}
	if err != nil {
		return 0, fmt.Errorf("looking at the stream %s: %w", hit.Stream, err)
	}
	n, err := strconv.Atoi(stream.CachedInfo().Config.Metadata[hit.StreamShards])
	if err != nil || n < 1 || n > hit.MaxShards {
		return 0, fmt.Errorf("the stream %s does not say how many shards it has (metadata %s): it was not made by an aggregator", hit.Stream, hit.StreamShards)
	}
	return n, nil
}

// edgeID is the identity under which one route of one log is counted.
func edgeID(content [sha256.Size]byte, route string) string {
	h := sha256.Sum256(append(content[:], route...))
	return "import-" + hex.EncodeToString(h[:8])
}

// run is one import or replay.
type run struct {
	Options
	js        jetstream.JetStream
	shards    int
	batches   uint64 // of each route and shard
	judge     *judge
	producers []*producer
	progress  Progress
}

// producer publishes the batches of one route.
type producer struct {
	list    string // that counts them
	edge    string
	applied map[int]uint64 // by shard: the highest batch that is in the counts
	hits    [][]hit.Hit    // by shard: of the batch being read
}

// scan reads the log from its beginning, and calls each with every line that is not
// empty: with a request, or with what is wrong with the line.
func scan(log io.ReadSeeker, each func(line int, e *accesslog.Entry, bad *accesslog.LineError) error) (lines int, err error) {
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return 0, fmt.Errorf("reading the log again: %w", err)
	}
	r := accesslog.NewReader(log)
	for {
		entry, err := r.Next()
		if err == io.EOF {
			return r.Line(), nil
		}
		bad := (*accesslog.LineError)(nil)
		if err != nil && !errors.As(err, &bad) {
			return 0, err
		}
		if err := each(r.Line(), &entry, bad); err != nil {
			return 0, err
		}
	}
}

// survey judges the whole log before any of it is published, and returns an error if
// it must not be imported.
func (im *run) survey(ctx context.Context, log io.ReadSeeker) (err error) {
	s := &im.judge.summary
	s.Lines, err = scan(log, func(line int, e *accesslog.Entry, bad *accesslog.LineError) error {
		if bad != nil {
			s.unreadable(bad)
		} else {
			im.judge.views(line, e)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return s.check(im.WithoutBotsCheck)
}

// publish reads the log from its beginning and publishes every batch that is
// not in the counts yet.
func (im *run) publish(ctx context.Context, log io.ReadSeeker) (err error) {
	for _, p := range im.producers {
		p.hits = make([][]hit.Hit, im.shards)
	}
	seq := uint64(1)
	s := &im.judge.summary
	s.Lines, err = scan(log, func(line int, e *accesslog.Entry, bad *accesslog.LineError) error {
		// Lines that were skipped may have been the end of a batch, or of several.
		for of := uint64((line-1)/linesPerBatch) + 1; seq < of; seq++ {
			if err := im.send(ctx, seq); err != nil {
				return err
			}
		}
		if bad != nil {
			s.unreadable(bad)
			return nil
		}
		for _, h := range im.judge.views(line, e) {
			p, shard := im.producers[h.route], hit.Shard(h.Kind, h.List, h.Item, im.shards)
			p.hits[shard] = append(p.hits[shard], h.Hit)
		}
		im.progress.Lines = line
		return nil
	})
	if err != nil {
		return err
	}
	for ; seq <= im.batches; seq++ {
		if err := im.send(ctx, seq); err != nil {
			return err
		}
	}
	return nil
}

// sendsAtOnce bounds how many batches are on their way. There is never more than
// one for a list and shard, so that the log has them in order.
const sendsAtOnce = 32

// lane is a list and a shard, whose batches are published one after the other.
type lane struct {
	list  string
	shard int
}

// send publishes batch seq of every producer and shard, and begins the next one.
func (im *run) send(ctx context.Context, seq uint64) error {
	lanes := map[lane][]*nats.Msg{}
	for _, p := range im.producers {
		for shard, hits := range p.hits {
			p.hits[shard] = nil
			if seq <= p.applied[shard] {
				continue
			}
			data, err := hit.Encode(&hit.Batch{Edge: p.edge, Shard: shard, Seq: seq, Hits: hits})
			if err != nil {
				return err
			}
			msg := nats.NewMsg(hit.Subject(shard, p.edge))
			msg.Data = data
			msg.Header.Set(hit.HeaderSeq, strconv.FormatUint(seq, 10))
			// All of it can be sent again, by importing the log again.
			msg.Header.Set(hit.HeaderLow, "1")
			lanes[lane{p.list, shard}] = append(lanes[lane{p.list, shard}], msg)
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(sendsAtOnce)
	for _, msgs := range lanes {
		g.Go(func() error {
			for _, msg := range msgs {
				if err := im.put(ctx, msg); err != nil {
					return err
				}
			}
			return nil
		})
	}
	sent := make(chan error, 1)
	go func() { sent <- g.Wait() }()
	slow := time.NewTimer(patience)
	defer slow.Stop()
	for waiting := true; waiting; {
		select {
		case err := <-sent:
			if err != nil {
				return err
			}
			waiting = false
		case <-slow.C:
			im.report("the log takes nothing: NATS is away, or the log is full")
		}
	}
	im.progress.Published = int(seq) * len(im.producers) * im.shards
	im.report("")
	return nil
}

// put publishes a batch until the log has it.
func (im *run) put(ctx context.Context, msg *nats.Msg) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		askCtx, cancel := context.WithTimeout(ctx, askTimeout)
		_, err := im.js.PublishMsg(askCtx, msg)
		cancel()
		if err == nil {
			return nil
		}
		if !sleep(ctx, pause) {
			return fmt.Errorf("publishing: %w", err)
		}
	}
}

const (
	askTimeout = 5 * time.Second // of one exchange with the broker
	patience   = 5 * time.Second // before Progress says what is being waited for
)

// wait waits until every batch is in the counts.
func (im *run) wait(ctx context.Context) error {
	moved, last := time.Now(), -1
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		var failed error
		for _, p := range im.producers {
			applied, err := im.ask(ctx, p.edge)
			if err != nil {
				failed = err
				continue
			}
			p.applied = applied
		}
		n := im.counted()
		if n == im.total() {
			im.report("")
			return nil
		}
		if n != last {
			moved, last = time.Now(), n
		}
		switch waited := time.Since(moved); {
		case waited < patience:
			im.report("")
		case failed != nil:
			im.report("no aggregator answers; is one running?")
		default:
			im.report("the aggregator is not counting; see its /-/ready")
		}
		if !sleep(ctx, pause) {
			return fmt.Errorf("waiting until all is counted: %w (run it again later: what is counted stays)", ctx.Err())
		}
	}
}

// applied asks how far a producer is in the counts, until somebody answers.
func (im *run) applied(ctx context.Context, edge string) (map[int]uint64, error) {
	for began := time.Now(); ; {
		applied, err := im.ask(ctx, edge)
		if err == nil {
			return applied, nil
		}
		if time.Since(began) > patience {
			im.report("no aggregator answers; is one running?")
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return nil, fmt.Errorf("asking what is counted already: %w", err)
		}
	}
}

func (im *run) ask(ctx context.Context, edge string) (map[int]uint64, error) {
	askCtx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := json.Marshal(hit.Waiting{Edge: edge})
	if err != nil {
		return nil, err
	}
	msg, err := im.Conn.RequestWithContext(askCtx, hit.SubjectApplied, body)
	if err != nil {
		return nil, err
	}
	var a hit.Applied
	if err := json.Unmarshal(msg.Data, &a); err != nil {
		return nil, fmt.Errorf("reading the answer on %s: %w", hit.SubjectApplied, err)
	}
	return a.Shards, nil
}

// total is how many batches there are, and counted how many are in the counts.
func (im *run) total() int { return int(im.batches) * len(im.producers) * im.shards }

func (im *run) counted() (n int) {
	for _, p := range im.producers {
		for shard := range im.shards {
			n += int(min(p.applied[shard], im.batches))
		}
	}
	return n
}

func (im *run) report(waiting string) {
	im.progress.Batches, im.progress.Counted, im.progress.Waiting = im.total(), im.counted(), waiting
	im.Progress(im.progress)
}

// sleep waits, and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
