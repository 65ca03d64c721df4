package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
)

// ErrShards means that the log was created with another number of shards than
// this edge is set to. Nothing is published.
var ErrShards = errors.New("the log has another number of shards than this edge")

// Connect connects an edge to NATS: to one or more URLs with commas between.
// It returns at once, and goes on trying for ever when no server answers.
func Connect(urls string, log *zap.Logger, opts ...nats.Option) (*nats.Conn, error) {
	var tried atomic.Int64 // when a failure was logged, in seconds
	opts = append([]nats.Option{
		nats.Name("hotboard edge"),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), // the default gives up for good after 60 attempts
		nats.ReconnectWait(500 * time.Millisecond),
		nats.ReconnectJitter(500*time.Millisecond, time.Second),
		// Else what was reported as failed is sent after all, later.
		nats.ReconnectBufSize(-1),
		// A dead connection is noticed after some 15 seconds.
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(2 * time.Second),
		nats.ConnectHandler(func(nc *nats.Conn) {
			log.Info("connected to NATS", zap.String("server", nc.ConnectedUrlRedacted()))
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connected to NATS again", zap.String("server", nc.ConnectedUrlRedacted()))
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: closed on purpose
				log.Warn("disconnected from NATS; hits wait on disk", zap.Error(err))
			}
		}),
		// Also while there has not been a connection yet.
		nats.ReconnectErrHandler(func(nc *nats.Conn, err error) {
			if now := time.Now().Unix(); now-tried.Load() >= int64(awayEvery/time.Second) {
				tried.Store(now)
				log.Warn("NATS cannot be reached; hits wait on disk, and this goes on trying", zap.Strings("servers", redacted(nc.Servers())), zap.Error(err))
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Error("NATS reports an error", zap.Error(err))
		}),
	}, opts...)
	nc, err := nats.Connect(urls, opts...)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return nc, nil
}

// awayEvery is how often it is logged that no server can be reached.
const awayEvery = time.Minute

// redacted returns URLs without their passwords.
func redacted(servers []string) []string {
	for i, s := range servers {
		if u, err := url.Parse(s); err == nil {
			servers[i] = u.Redacted()
		}
	}
	return servers
}

// NATS is the [Bus] over NATS: the log is a JetStream stream, the aggregator
// answers requests.
type NATS struct {
	conn   func() *nats.Conn
	shards int

	checking chan struct{} // holds a token while the stream is looked at
	link     atomic.Pointer[link]
}

// link is a connection on which the stream was seen to have the right shards.
type link struct {
	nc         *nats.Conn
	reconnects uint64
	js         jetstream.JetStream
}

var errNoConnection = errors.New("there is no connection to NATS")

// NewNATS returns a bus for a log of so many shards, over whichever connection
// conn returns; nil when there is none at the time. [Connect] makes one with the
// options that the bus needs.
func NewNATS(conn func() *nats.Conn, shards int) *NATS {
	return &NATS{conn: conn, shards: shards, checking: make(chan struct{}, 1)}
}

// Publish implements [Bus]. It publishes nothing (ErrShards) while the stream
// has another number of shards, which is looked up once for each connection
// and after each failure.
func (b *NATS) Publish(ctx context.Context, shard int, edge string, send Send, data []byte) error {
	link, err := b.checked(ctx)
	if err != nil {
		return err
	}
	msg := nats.NewMsg(hit.Subject(shard, edge))
	msg.Header.Set(hit.HeaderSeq, strconv.FormatUint(send.Seq, 10))
	if send.Last != send.Seq {
		msg.Header.Set(hit.HeaderLast, strconv.FormatUint(send.Last, 10))
	}
	msg.Header.Set(hit.HeaderLow, strconv.FormatUint(send.Low, 10))
	msg.Data = data
	// The expected stream: an acknowledgement from another one that happens to
	// keep the subject would not be from the log.
	if _, err := link.js.PublishMsg(ctx, msg, jetstream.WithExpectStream(hit.Stream)); err != nil {
		b.link.CompareAndSwap(link, nil) // the stream may have been replaced
		return fmt.Errorf("publishing batches %d to %d of shard %d: %w", send.Seq, send.Last, shard, err)
	}
	return nil
}

// checked returns the connection, once the stream was seen on it to have the
// right number of shards.
func (b *NATS) checked(ctx context.Context) (*link, error) {
	nc, err := b.connected()
	if err != nil {
		return nil, err
	}
	reconnects := nc.Stats().Reconnects
	known := func() *link {
		if l := b.link.Load(); l != nil && l.nc == nc && l.reconnects == reconnects {
			return l
		}
		return nil
	}
	if l := known(); l != nil {
		return l, nil
	}
	select {
	case b.checking <- struct{}{}:
		defer func() { <-b.checking }()
	case <-ctx.Done():
		return nil, fmt.Errorf("looking at stream %s: %w", hit.Stream, ctx.Err())
	}
	if l := known(); l != nil {
		return l, nil
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("using JetStream: %w", err)
	}
	stream, err := js.Stream(ctx, hit.Stream)
	if err != nil {
		return nil, fmt.Errorf("looking at stream %s (an aggregator creates it when it starts): %w", hit.Stream, err)
	}
	if n := stream.CachedInfo().Config.Metadata[hit.StreamShards]; n != strconv.Itoa(b.shards) {
		return nil, fmt.Errorf("%w: stream %s says %q, the edge %d; set the edge to what the stream has, and give it a new spool directory once the spool is empty",
			ErrShards, hit.Stream, n, b.shards)
	}
	l := &link{nc, reconnects, js}
	b.link.Store(l)
	return l, nil
}

// Connected implements [Bus].
func (b *NATS) Connected() error {
	_, err := b.connected()
	return err
}

// connected returns the connection if there is one.
func (b *NATS) connected() (*nats.Conn, error) {
	nc := b.conn()
	if nc == nil {
		return nil, errNoConnection
	}
	if !nc.IsConnected() {
		return nil, fmt.Errorf("%w: it is %v", errNoConnection, nc.Status())
	}
	return nc, nil
}

// Applied implements [Bus].
func (b *NATS) Applied(ctx context.Context, waiting hit.Waiting) (map[int]uint64, error) {
	nc, err := b.connected()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(waiting)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", hit.SubjectApplied, err)
	}
	msg, err := nc.RequestWithContext(ctx, hit.SubjectApplied, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("no aggregator answers on %s: %w", hit.SubjectApplied, err)
	}
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", hit.SubjectApplied, err)
	}
	if err := hit.ReplyError(msg.Header); err != nil {
		return nil, fmt.Errorf("asking %s: %w", hit.SubjectApplied, err)
	}
	// An answer without the member is not one: read as "nothing is applied", it
	// would have everything sent again.
	var answer struct {
		Shards *map[int]uint64 `json:"shards"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", hit.SubjectApplied, err)
	}
	if answer.Shards == nil {
		return nil, fmt.Errorf("the answer of %s names no shards: %.200q", hit.SubjectApplied, msg.Data)
	}
	return *answer.Shards, nil
}
