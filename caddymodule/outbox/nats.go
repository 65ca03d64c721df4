package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/revisions"
)

// ErrShards reports that the log and this edge have different numbers of shards.
// The edge publishes nothing.
var ErrShards = errors.New("the log and this edge have different numbers of shards")

// Connect connects an edge to NATS at one or more comma-separated URLs. It
// returns at once and keeps trying if no server answers.
func Connect(urls string, log *zap.Logger, opts ...nats.Option) (*nats.Conn, error) {
	var tried atomic.Int64 // time of the last logged failure, in seconds
	opts = append([]nats.Option{
		nats.Name("hotboard edge"),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), // the default gives up for good after 60 attempts
		nats.ReconnectWait(500 * time.Millisecond),
		nats.ReconnectJitter(500*time.Millisecond, time.Second),
		// Otherwise a message reported as failed could be sent later.
		nats.ReconnectBufSize(-1),
		// Detect a dead connection after some 15 seconds.
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
		// Also before the first connection.
		nats.ReconnectErrHandler(func(nc *nats.Conn, err error) {
			if now := time.Now().Unix(); now-tried.Load() >= int64(awayEvery/time.Second) {
				tried.Store(now)
				log.Warn("cannot reach NATS; hits wait on disk, and the edge keeps trying", zap.Strings("servers", redacted(nc.Servers())), zap.Error(err))
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

// awayEvery is the interval of log messages while no server is reachable.
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

// NATS is the [Bus] over NATS: the log is a JetStream stream, and the aggregator
// answers requests.
type NATS struct {
	conn   func() *nats.Conn
	shards int
	now    func() time.Time
	book   *revisions.Book

	checking chan struct{} // holds a token during a check of the stream
	link     atomic.Pointer[link]
}

// link is a connection whose stream has the right number of shards.
type link struct {
	nc         *nats.Conn
	reconnects uint64
	js         jetstream.JetStream
	documents  sync.Map // by hit.RulesID: when the log was known to have it
}

var errNoConnection = errors.New("no connection to NATS")

// NewNATS returns a bus for a log with that number of shards, over the current
// connection from conn, or nil if there is none. [Connect] makes a connection
// with the options that the bus needs.
func NewNATS(conn func() *nats.Conn, shards int) *NATS {
	return &NATS{conn: conn, shards: shards, now: time.Now, book: revisions.New(conn, 0), checking: make(chan struct{}, 1)}
}

// Publish implements [Bus]. It returns ErrShards and publishes nothing while the
// stream has another number of shards. It checks that once per connection and
// after each failure.
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
	// Expect this stream: an acknowledgement from another stream with the same
	// subject would not be from the log.
	if _, err := link.js.PublishMsg(ctx, msg, jetstream.WithExpectStream(hit.Stream)); err != nil {
		b.link.CompareAndSwap(link, nil) // the stream may have been replaced
		return fmt.Errorf("publishing batches %d to %d of shard %d: %w", send.Seq, send.Last, shard, err)
	}
	return nil
}

// checked returns the connection after checking that its stream has the right
// number of shards.
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
		return nil, fmt.Errorf("%w: stream %s has %q, the edge %d; set the edge to the stream's number, and give it a new spool directory once the spool is empty",
			ErrShards, hit.Stream, n, b.shards)
	}
	l := &link{nc: nc, reconnects: reconnects, js: js}
	b.link.Store(l)
	return l, nil
}

// documentEvery is how long the bus relies on a document in the log: so documents
// that an emptied bucket has lost are back within a minute.
const documentEvery = 45 * time.Second

// Document implements [Bus].
func (b *NATS) Document(ctx context.Context, id hit.RulesID, text []byte) error {
	link, err := b.checked(ctx)
	if err != nil {
		return err
	}
	now := b.now()
	if at, ok := link.documents.Load(id); ok && now.Sub(at.(time.Time)) < documentEvery {
		return nil
	}
	if text != nil {
		err = b.book.PutDocument(ctx, text)
	} else if _, err = b.book.Document(ctx, id); errors.Is(err, revisions.ErrNoDocument) {
		err = fmt.Errorf("%w: neither the spool nor the log has %s", ErrNoDocument, id)
	}
	if err == nil {
		link.documents.Store(id, now)
	}
	return err
}

// Connected implements [Bus].
func (b *NATS) Connected() error {
	_, err := b.connected()
	return err
}

// connected returns the connection, or an error if there is none.
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
	// An answer without the member is invalid: interpreting it as "nothing is
	// applied" would resend everything.
	var answer struct {
		Shards *map[int]uint64 `json:"shards"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", hit.SubjectApplied, err)
	}
	if answer.Shards == nil {
		return nil, fmt.Errorf("the answer of %s lacks shards: %.200q", hit.SubjectApplied, msg.Data)
	}
	return *answer.Shards, nil
}
