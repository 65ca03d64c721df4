package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/hotboard/hotboard/hit"
)

// producer publishes the batches of one route.
type producer struct {
	list    string // the list that counts them
	edge    string
	applied map[int]uint64 // by shard: the number of the last applied batch
	hits    [][]hit.Hit    // by shard: hits of the current batch
	rules   hit.RulesID    // of the current batch
}

// sendsAtOnce bounds the number of batches on their way. Each list and shard has
// at most one, so that the log keeps their order.
const sendsAtOnce = 32

// lane is a list and a shard, which publishes its batches one after the other.
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
			data, err := hit.Encode(&hit.Batch{Edge: p.edge, Shard: shard, Seq: seq, Rules: p.rules, Hits: hits})
			if err != nil {
				return err
			}
			msg := nats.NewMsg(hit.Subject(shard, p.edge))
			msg.Data = data
			msg.Header.Set(hit.HeaderSeq, strconv.FormatUint(seq, 10))
			// Importing the log again can send all of it again.
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
			im.report("the log accepts nothing: NATS is down, or the log is full")
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
	askTimeout = 5 * time.Second // for one request to the broker
	patience   = 5 * time.Second // before Progress reports the reason for waiting
)

// wait waits until every batch is applied.
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
			return fmt.Errorf("waiting for the aggregator to count everything: %w (run it again later: the counts stay)", ctx.Err())
		}
	}
}

// applied asks for the applied batches of a producer until somebody answers.
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
			return nil, fmt.Errorf("asking for the applied batches: %w", err)
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
	if err := hit.ReplyError(msg.Header); err != nil {
		return nil, err
	}
	var a hit.Applied
	if err := json.Unmarshal(msg.Data, &a); err != nil {
		return nil, fmt.Errorf("reading the answer on %s: %w", hit.SubjectApplied, err)
	}
	return a.Shards, nil
}

// total is the number of batches, and counted the number of those applied.
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
