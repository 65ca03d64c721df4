package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/hotboard/hotboard/e2e/stack"
)

const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// visitors is the most requests in progress at once.
const visitors = 16

// load is visitors who read pages and whose pages report views, each request from
// another address. Every beacon has an item of its own; pages are few.
type load struct {
	t      *testing.T
	client *http.Client
	ledger *ledger
	cancel context.CancelFunc
	done   sync.WaitGroup
	number atomic.Int64
	quiet  sync.RWMutex // held while a request is under way, or nobody may send one

	loadOptions
	pages     map[string]string // the expected content of each page, by id
	redialled atomic.Int64
}

// loadOptions sets the size of a load.
type loadOptions struct {
	sites   []string // URLs of the edges; taken in turns
	beacons float64  // a second
	pages   float64  // a second
	strict  bool     // no request may fail: every edge is up
	// redial sends a request again after its connection was closed without an answer,
	// like a browser.
	redial bool
}

// maxRedials is the most repetitions of one request. Between two of them the client
// waits longer and longer, from redialAfter on: while a reload has two listeners, the
// kernel chooses one of them for each connection, and the old one closes with all
// connections that it has not accepted.
const (
	maxRedials  = 5
	redialAfter = 5 * time.Millisecond
)

// startLoad starts a load. The ledger records the results of its requests.
func startLoad(t *testing.T, o loadOptions) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{
		t: t, loadOptions: o, cancel: cancel, ledger: newLedger(), pages: map[string]string{},
		client: &http.Client{
			Timeout:   20 * time.Second,
			Transport: &http.Transport{MaxIdleConnsPerHost: visitors},
		},
	}
	for _, id := range stack.Pages() {
		l.pages[id] = string(get(t, o.sites[0]+"/articles/"+id)) // not counted: browsers send Accept
	}
	for _, kind := range []struct {
		rate float64
		one  func(context.Context, int64)
	}{{o.beacons, l.report}, {o.pages, l.read}} {
		if kind.rate == 0 {
			continue
		}
		limit := rate.NewLimiter(rate.Limit(kind.rate), 1)
		for range visitors / 2 {
			l.done.Go(func() {
				for limit.Wait(ctx) == nil {
					// Started requests finish: an edge would rightly count a request whose answer
					// nobody awaits.
					l.quiet.RLock()
					kind.one(context.WithoutCancel(ctx), l.number.Add(1))
					l.quiet.RUnlock()
				}
			})
		}
	}
	t.Cleanup(func() { l.stop() })
	return l
}

// stop ends the load and returns the ledger, when all requests are answered.
func (l *load) stop() *ledger {
	l.cancel()
	l.done.Wait()
	l.client.CloseIdleConnections()
	return l.ledger
}

// pause stops all sending until resume. It returns when all requests are answered;
// then the options of the load may change.
func (l *load) pause() { l.quiet.Lock() }

func (l *load) resume() { l.quiet.Unlock() }

// visitor makes a request the n-th visitor's, with an address for n.
func visitor(r *http.Request, n int64) {
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("11.%d.%d.%d", n>>16&255, n>>8&255, n&255))
	r.Header.Set("User-Agent", browser)
}

// report sends a beacon for a view of the n-th item.
func (l *load) report(ctx context.Context, n int64) {
	id := fmt.Sprintf("item-%d", n)
	url := l.sites[n%int64(len(l.sites))] + "/api/views"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"articleId":"`+id+`"}`))
	if err != nil {
		l.t.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	visitor(r, n)
	status, body, repeated, err := l.send(r)
	if l.strict && (err != nil || status != http.StatusAccepted) {
		l.t.Errorf("a beacon is not accepted: %v, status %d: %s", err, status, body)
	}
	l.ledger.beacon(id, err == nil && status/100 == 2, repeated)
}

// read reads one of the pages.
func (l *load) read(ctx context.Context, n int64) {
	ids := stack.Pages()
	id := ids[n%int64(len(ids))]
	url := l.sites[n/int64(len(ids))%int64(len(l.sites))] + "/articles/" + id
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		l.t.Error(err)
		return
	}
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	visitor(r, n)
	status, body, _, err := l.send(r)
	served := err == nil && status == http.StatusOK && body == l.pages[id]
	if !served && l.strict {
		l.t.Errorf("the page %s is not served as it is: %v, status %d, %d bytes", id, err, status, len(body))
	}
	l.ledger.page(id, served)
}

// send sends a request, and repeats it according to redial.
func (l *load) send(r *http.Request) (status int, body string, repeated int, err error) {
	for ; ; repeated++ {
		status, body, err = do(l.client, r)
		if err == nil || status != 0 || !l.redial || repeated == maxRedials || os.IsTimeout(err) {
			return status, body, repeated, err
		}
		l.redialled.Add(1)
		<-time.After(redialAfter << repeated)
		if r.GetBody == nil {
			continue
		}
		again, err := r.GetBody()
		if err != nil {
			return 0, "", repeated, err
		}
		r.Body = again
	}
}

// do sends a request. With an error, the status is 0 unless an answer has begun.
func do(c *http.Client, r *http.Request) (status int, body string, err error) {
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err = readAll(resp)
	return resp.StatusCode, body, err
}

func readAll(resp *http.Response) (string, error) {
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}
