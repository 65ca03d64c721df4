package caddymodule

import (
	"fmt"
	"net/http"
	"net/netip"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/caddymodule/visitors"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

const twoADay = `
	limit two {
		by ip item
		max 2 per day
	}
`

func TestLimitedBeacons(t *testing.T) {
	stopClock(t)
	log := startLog(t, 1)
	const list = "limitedbeacons"
	e := startEdge(t, log, limited(list, twoADay))
	refused := ruleset.Reason("limited:two")
	before := counted(list, refused)
	w := e.do(fetch(http.MethodPost, "/api/views", `[{"articleId":"a"},{"articleId":"b"},{"articleId":"a"},{"articleId":"a"}]`))
	if a := beaconReply(t, w); w.Code != http.StatusAccepted || a != (beaconAnswer{OK: true, Accepted: 3, Reason: refused}) {
		t.Errorf("four views: %d %s", w.Code, w.Body)
	}
	w = e.do(fetch(http.MethodPut, "/"+list+"/a/view", ""))
	if a := beaconReply(t, w); w.Code != http.StatusOK || a != (beaconAnswer{OK: true, Reason: refused}) {
		t.Errorf("a PUT: %d %s", w.Code, w.Body)
	}
	e.do(browse("/" + list + "/a"))
	if got := counted(list, refused) - before; got != 3 {
		t.Errorf("%d were limited, want 3", got)
	}
	for _, want := range []string{"a", "b", "a"} {
		if h := log.next(t); h.Item != want {
			t.Errorf("hit %+v, want one of %s", h, want)
		}
	}
	w = e.do(fetch(http.MethodPut, "/"+list+"/b/view", ""))
	if a := beaconReply(t, w); a.Accepted != 1 {
		t.Errorf("a PUT of another item: %s", w.Body)
	}
	log.next(t)
	if n := len(log.hits); n != 0 {
		t.Errorf("%d more hits", n)
	}
}

// TestLimitsByWhoItIs: users, visitors, channels and devices are what the site
// says they are.
func TestLimitsByWhoItIs(t *testing.T) {
	stopClock(t)
	log := startLog(t, 1)
	const list = "limitedby"
	limits := ""
	for _, by := range []string{"user", "visitor", "channel", "device"} {
		limits += fmt.Sprintf("limit %s {\n by %[1]s\n max 1 per day\n when channel %[1]s\n bonus %[1]s 1\n }\n", by)
	}
	e := startEdge(t, log, limited(list, limits, "visitor {cookie.visitor}", "user {header.X-User}", "channel {query.c} referrer", "debug_header"))
	const phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1"
	for _, tt := range []struct {
		by    string
		same  [][]string // headers of three clients that are one: the bonus admits two
		other []string   // and of another one
	}{
		{"user", [][]string{{"X-User", "anna"}, {"X-User", "anna", "User-Agent", chrome}, {"X-User", "anna", "Cookie", "visitor=x"}}, []string{"X-User", "bert"}},
		{"visitor", [][]string{{"Cookie", "visitor=x"}, {"Cookie", "visitor=x", "User-Agent", chrome}, {"Cookie", "a=b; visitor=x"}}, []string{"Cookie", "visitor=y"}},
		{"device", [][]string{{}, {"User-Agent", chrome}, {"User-Agent", safari}}, []string{"User-Agent", phone}},
		{"channel", [][]string{{}, {"User-Agent", chrome}, {"User-Agent", phone}}, nil},
	} {
		t.Run(tt.by, func(t *testing.T) {
			see := func(header []string) string {
				w := e.do(browse("/"+list+"/page?c="+tt.by, header...))
				verdict, _, _ := strings.Cut(w.Header().Get(verdictHeader), ";")
				return verdict
			}
			for i, header := range tt.same {
				want := []string{"counted", "counted", "limited:" + tt.by}[i]
				if got := see(header); got != want {
					t.Errorf("client %v: %s, want %s", header, got, want)
				}
			}
			if tt.other == nil {
				return
			}
			if got := see(tt.other); got != "counted" {
				t.Errorf("another client, %v: %s", tt.other, got)
			}
		})
	}
	t.Run("referrer", func(t *testing.T) {
		for i := range 3 {
			w := e.do(browse("/"+list+"/page", "Referer", "https://Channel/x"))
			if got := w.Header().Get(verdictHeader); strings.HasPrefix(got, "limited:channel") != true {
				t.Errorf("view %d from the host channel, whose limit is used up: %s", i+1, got)
			}
		}
	})
}

// TestDroppedViewsUseNothingUp: limits do not charge views that the disk refuses.
func TestDroppedViewsUseNothingUp(t *testing.T) {
	stopClock(t)
	log := startLog(t, 1)
	const list = "uncharged"
	const shadow = "limit dry {\n by ip item\n max 1 per day\n shadow\n}\n"
	e := startEdge(t, log, limited(list, twoADay+shadow))
	rt := e.app.rt.Load()
	small, err := outbox.Open(outbox.Options{Dir: t.TempDir(), Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := small.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.app.rt.Store(&runtime{shards: 1, secrets: rt.secrets, limits: rt.limits, pending: rt.pending, samples: rt.samples, visitors: rt.visitors, outbox: small})
	for range 3 {
		e.do(browse("/" + list + "/a"))
		e.do(fetch(http.MethodPut, "/"+list+"/a/view", ""))
		if w := e.do(fetch(http.MethodPost, "/api/views", `[{"articleId":"a"},{"articleId":"a"}]`)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a beacon: %d %s", w.Code, w.Body)
		}
	}
	e.app.rt.Store(rt)
	e.do(browse("/" + list + "/a"))
	w := e.do(fetch(http.MethodPost, "/api/views", `[{"articleId":"a"},{"articleId":"a"}]`))
	if a := beaconReply(t, w); a != (beaconAnswer{OK: true, Accepted: 1, Reason: "limited:two"}) {
		t.Errorf("after a view: %s, want room for one", w.Body)
	}
	x := (&client{ip: clientAddr(t, "192.0.2.1")}).limited(provisionedHandler(t, e).current().lists[0], "a")
	if s := e.app.generation.Load().limits.Look("dry", &x, nil, clock.Now()); s[0].Remaining != 0 {
		t.Errorf("the limit in shadow has room for %d after two views, of which it would have admitted one", s[0].Remaining)
	}
}

func TestShadowRefusesNothing(t *testing.T) {
	stopClock(t)
	log := startLog(t, 1)
	const list, views = "shadowed", 10
	e := startEdge(t, log, limited(list, strings.Replace(twoADay, "max 2", "shadow\n max 2", 1)))
	before := counterValue(shadowedTotal.WithLabelValues(list, "two"))
	for range views {
		e.do(browse("/" + list + "/a"))
		log.next(t)
	}
	w := e.do(fetch(http.MethodPost, "/api/views", `{"articleId":"a"}`))
	if a := beaconReply(t, w); a.Accepted != 1 {
		t.Errorf("a beacon: %s", w.Body)
	}
	if got := counterValue(shadowedTotal.WithLabelValues(list, "two")) - before; got != views+1-2 {
		t.Errorf("%d would have been refused, want %d", got, views+1-2)
	}
}

func TestLimitsSurviveReloads(t *testing.T) {
	stopClock(t)
	log := startLog(t, 1)
	const list = "keptlimits"
	site := func(limits string) string {
		return strings.Replace(liveSite(list, natsBroker(log.url), "debug_header"), "dir DIR", "dir DIR\n"+limits, 1)
	}
	c := runCaddy(t, site(twoADay))
	see := func(ip, want string) {
		t.Helper()
		r := browse("/" + list + "/a")
		r.RemoteAddr = ip + ":1234"
		if got, _, _ := strings.Cut(c.edge().do(r).Header().Get(verdictHeader), ";"); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
	reload := func(config string) {
		t.Helper()
		if err := c.load(config); err != nil {
			t.Fatal(err)
		}
	}
	const a, b = "192.0.2.1", "192.0.2.2"
	see(a, "counted")
	reload(site(twoADay) + "\n# another")
	see(a, "counted")
	see(a, "limited:two")
	see(b, "counted")
	reload(site(twoADay + strings.ReplaceAll(strings.ReplaceAll(twoADay, "two", "three"), "max 2", "max 3")))
	see(a, "limited:two") // the same limit, beside a new one
	see(b, "counted")
	reload(site(strings.ReplaceAll(twoADay, "max 2", "max 3")))
	see(a, "counted") // a third, now that there may be three
	see(a, "limited:two")
	reload(site(strings.ReplaceAll(twoADay, "by ip item", "by item")))
	see(a, "counted") // counts another thing now
	reload(site(""))
	see(a, "counted")
	if _, rt := running(); rt.limits.Stats().Keys != 0 {
		t.Errorf("counts are held of limits that nobody has: %+v", rt.limits.Stats())
	}
}

// TestLimitsBeforeStart: Caddy may serve the first requests before the app starts.
func TestLimitsBeforeStart(t *testing.T) {
	stopClock(t)
	log := startLog(t, 1)
	const list = "early"
	config := strings.ReplaceAll(limited(list, twoADay), "DIR", t.TempDir())
	e, err := provisionEdge(t, strings.Replace(config, "NATS", natsBroker(log.url), 1))
	if err != nil {
		t.Fatal(err)
	}
	refused := counted(list, "limited:two")
	var requests sync.WaitGroup
	for range 5 {
		requests.Go(func() { e.do(browse("/" + list + "/a")) })
	}
	requests.Wait()
	if got := counted(list, "limited:two") - refused; got != 3 {
		t.Errorf("%d of 5 views were limited, want 3", got)
	}
	if err := e.app.Start(); err != nil {
		t.Fatal(err)
	}
	log.next(t)
	log.next(t)
	e.do(browse("/" + list + "/b"))
	if h := log.next(t); h.Item != "b" {
		t.Errorf("hit %+v, want one of b", h)
	}
}

// TestValidatedLimitsLeaveNoTrace: neither a configuration that was only checked
// nor one that failed has a part in the limits.
func TestValidatedLimitsLeaveNoTrace(t *testing.T) {
	log := startLog(t, 1)
	const list = "traceless"
	e := startEdge(t, log, limited(list, twoADay))
	e.do(browse("/" + list + "/a"))
	log.next(t)
	keys := e.app.rt.Load().limits.Stats()
	config := strings.ReplaceAll(limited(list, "limit_keys 5\n"+strings.ReplaceAll(twoADay, "two", "other")), "DIR", e.app.Dir)
	config = strings.Replace(config, "NATS", "nats "+log.url+" {\n shards 2\n }", 1)
	failing, err := provisionEdge(t, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := failing.app.Start(); err == nil {
		t.Fatal("a log of other shards was accepted")
	}
	if err := failing.app.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if got := e.app.rt.Load().limits.Stats(); got != keys {
		t.Errorf("the limits' state was %+v, and is %+v", keys, got)
	}
}

// TestFlood: many clients cost bounded memory, and do not make the edge forget what
// an honest one has used up.
func TestFlood(t *testing.T) {
	log := startLog(t, 1)
	const list, keys, clients = "flooded", 2000, 20_000
	e := startEdge(t, log, limited(list, fmt.Sprintf("limit_keys %d\n", keys)+twoADay, "debug_header"))
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	defer clock.Set(func() time.Time { return now })()
	verdict := func(ip string) string {
		r := browse("/" + list + "/a")
		r.RemoteAddr = ip + ":1"
		got, _, _ := strings.Cut(e.do(r).Header().Get(verdictHeader), ";")
		return got
	}
	for _, want := range []string{"counted", "counted", "limited:two"} {
		if got := verdict("203.0.113.1"); got != want {
			t.Errorf("before the flood: %s, want %s", got, want)
		}
	}
	go func() {
		for range log.hits { // there are too many of them for the test's log
		}
	}()
	h := provisionedHandler(t, e).current()
	list0 := h.lists[0]
	memory := func() uint64 {
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := memory()
	for i := range clients {
		ip := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		h.charge(&client{time: now, ip: ip, who: visitors.Client(ip, firefox)}, list0, "a")
		if i%100 == 0 {
			verdict(ip.String())
		}
	}
	if after := memory(); after > before+16<<20 {
		t.Errorf("%d clients cost %d MB", clients, (after-before)>>20)
	}
	if s := e.app.rt.Load().limits.Stats(); s.Keys > keys || s.Estimated == 0 {
		t.Errorf("the limits' state is %+v, want at most %d keys, and estimates beyond", s, keys)
	}
	if got := verdict("203.0.113.1"); got != "limited:two" {
		t.Errorf("after the flood: %s, want limited:two", got)
	}
}

// A view is no vote: it names no quotas.
func TestViewsNameNoQuotas(t *testing.T) {
	log := startLog(t, 1)
	e := startEdge(t, log, limited("noquotas", twoADay))
	e.do(browse("/noquotas/a"))
	if h := log.next(t); h.Kind != hit.View || len(h.Quotas) != 0 || h.Channel != "" || h.Confirm != 0 {
		t.Errorf("hit %+v", h)
	}
}
