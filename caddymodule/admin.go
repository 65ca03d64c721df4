package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/hotboard/hotboard/caddymodule/internal/clock"
	"github.com/hotboard/hotboard/caddymodule/limit"
	"github.com/hotboard/hotboard/caddymodule/samples"
	"github.com/hotboard/hotboard/caddymodule/visitors"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

// AdminAPI adds an edge's state to Caddy's admin API: its faults, samples of
// requests with their verdicts, the counts of a limit for a key, and the verdict
// on a User-Agent.
//
// Addresses, User-Agents and users are in the bodies of requests, because Caddy
// logs the URLs of its admin API.
type AdminAPI struct{}

// CaddyModule returns the Caddy module information.
func (*AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.hotboard",
		New: func() caddy.Module { return new(AdminAPI) },
	}
}

const adminPath = "/hotboard/"

// Routes returns the routes below /hotboard/, except those of the embedded
// aggregator, which have longer paths than the first one.
func (*AdminAPI) Routes() []caddy.AdminRoute {
	handler := caddy.AdminHandlerFunc(serveAdmin)
	return []caddy.AdminRoute{{Pattern: adminPath, Handler: handler}, {Pattern: adminPath + "-/ready", Handler: handler}}
}

// adminRequest is a request for the admin API with the configuration and the rules
// in force.
type adminRequest struct {
	*http.Request
	*generation
	app *App
	rt  *runtime
}

func serveAdmin(w http.ResponseWriter, r *http.Request) error {
	path := strings.TrimPrefix(r.URL.Path, adminPath)
	limitName, one := strings.CutPrefix(path, "limits/")
	var endpoint func(adminRequest) (any, error) // returns the answer, or nil for none
	methods := []string{http.MethodGet}
	switch {
	case path == "-/ready": // has its own status
	case path == "samples":
		endpoint = adminSamples
	case path == "limits":
		endpoint = adminLimits
	case path == "bots":
		endpoint, methods = adminBots, []string{http.MethodPost}
	case one && limitName != "":
		endpoint = func(r adminRequest) (any, error) { return adminLimit(r, limitName) }
		methods = []string{http.MethodPost, http.MethodDelete}
	default:
		return adminError(http.StatusNotFound, "unknown path: use one of %s-/ready, %[1]ssamples, %[1]slimits, %[1]slimits/<name> and %[1]sbots", adminPath)
	}
	if !slices.Contains(methods, r.Method) {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return adminError(http.StatusMethodNotAllowed, "%s answers %s", r.URL.Path, strings.Join(methods, " and "))
	}
	app, rt := running()
	if app == nil {
		return adminError(http.StatusServiceUnavailable, "no configuration with the app hotboard is running")
	}
	req := adminRequest{r, app.generation.Load(), app, rt}
	if path == "-/ready" {
		adminReady(w, req)
		return nil
	}
	answer, err := endpoint(req)
	if err != nil {
		return err
	}
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// running returns the app of the configuration in force.
func running() (app *App, rt *runtime) {
	runtimes.Range(func(_, v any) bool {
		open := v.(*runtime)
		if a, ok := open.apps.Current(); ok {
			app, rt = a, open
		}
		return app == nil
	})
	return app, rt
}

func adminError(status int, format string, args ...any) error {
	return caddy.APIError{HTTPStatus: status, Err: fmt.Errorf(format, args...)}
}

// readyTimeout bounds the checks behind readiness, which must fail fast.
const readyTimeout = time.Second

// adminReady answers GET /hotboard/-/ready: 200, or 503 with the faults of the
// edge and its broker.
func adminReady(w http.ResponseWriter, r adminRequest) {
	found := r.rt.faults.Active()
	if b, ok := r.app.broker.(faulty); ok {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		found = append(found, b.Faults(ctx)...)
	}
	faults.WriteReady(w, faults.WithoutConsequences(found))
}

// adminSamples answers GET /hotboard/samples?reason=&list=&limit=.
func adminSamples(r adminRequest) (any, error) {
	const usual, most = 100, 10_000
	q := r.URL.Query()
	for name := range q {
		if name != "reason" && name != "list" && name != "limit" {
			return nil, adminError(http.StatusBadRequest, "%q is none of reason, list and limit", name)
		}
	}
	limit := usual
	if s := q.Get("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > most {
			return nil, adminError(http.StatusBadRequest, "limit: %q is not a number from 1 to %d", s, most)
		}
	}
	if list := q.Get("list"); list != "" && r.rules.List(list) == nil {
		return nil, adminError(http.StatusNotFound, "unknown list %q", list)
	}
	return struct {
		Samples []samples.Sample `json:"samples"`
	}{r.rt.samples.Latest(q.Get("list"), ruleset.Reason(q.Get("reason")), limit)}, nil
}

// limitState is a limit with its number of refused hits, by list.
type limitState struct {
	*ruleset.Limit
	Refused map[string]uint64 `json:"refused"`
}

// adminLimits answers GET /hotboard/limits.
func adminLimits(r adminRequest) (any, error) {
	stats := r.rt.limits.Stats()
	answer := struct {
		Keys      int          `json:"keys"`
		MaxKeys   int          `json:"max_keys"`
		Reclaimed uint64       `json:"reclaimed"`
		Estimated uint64       `json:"estimated"`
		Limits    []limitState `json:"limits"`
	}{stats.Keys, stats.MaxKeys, stats.Reclaimed, stats.Estimated, []limitState{}}
	for _, l := range r.rules.Limits {
		s := limitState{l, make(map[string]uint64)}
		for _, list := range r.rules.Lists {
			switch {
			case !l.AppliesToList(list.Name):
			case l.Shadow:
				s.Refused[list.Name] = counterValue(shadowedTotal.WithLabelValues(list.Name, l.Name))
			default:
				s.Refused[list.Name] = counterValue(requestsTotal.WithLabelValues(list.Name, string(l.Reason())))
			}
		}
		answer.Limits = append(answer.Limits, s)
	}
	return answer, nil
}

func counterValue(c prometheus.Counter) uint64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		return 0 // unreachable without a mistake in this package
	}
	return uint64(m.GetCounter().GetValue())
}

// limitKey has the values of a limit's key, as in a request body.
type limitKey struct {
	List      string `json:"list"`
	Item      string `json:"item"`
	IP        string `json:"ip"`
	UserAgent string `json:"user_agent"`
	User      string `json:"user"`
	Visitor   string `json:"visitor"` // as the site names visitors; default: ip and user_agent
	Channel   string `json:"channel"`
	Device    string `json:"device"` // default: the device of user_agent
}

// windowState is the count of a key in one window.
type windowState struct {
	ruleset.Window
	// Max includes the channel's bonus. For a rate, it is the burst.
	Max          int64   `json:"max"`
	Remaining    int64   `json:"remaining"`
	ResetSeconds float64 `json:"reset_seconds"`
	Held         bool    `json:"held"`
	Estimated    bool    `json:"estimated,omitempty"`
}

// adminLimit answers POST and DELETE /hotboard/limits/<name>: it returns or
// resets the counts of the key in the body.
func adminLimit(r adminRequest, name string) (any, error) {
	l := r.rules.Limit(name)
	if l == nil {
		return nil, adminError(http.StatusNotFound, "unknown limit %q", name)
	}
	var key limitKey
	if err := readAdminBody(r, &key); err != nil {
		return nil, err
	}
	c, list, err := key.client(r.generation, l)
	if err != nil {
		return nil, err
	}
	x := c.limited(list, key.Item)
	var quotas []hit.Quota
	if list.Votes != nil {
		var known bool
		if quotas, known = r.limits.AppendQuotas(nil, &x, c.time, r.rt.secrets.Shared); !known {
			return nil, adminError(http.StatusServiceUnavailable, "the edge does not have the shared secrets yet: see the metric hotboard_edge_salt_shared")
		}
	}
	if r.Method == http.MethodDelete {
		r.limits.Reset(name, &x, quotas)
		return nil, nil
	}
	answer := struct {
		Limit   string        `json:"limit"`
		List    string        `json:"list"`
		Windows []windowState `json:"windows"`
	}{l.Name, list.Name, []windowState{}}
	for _, s := range r.limits.Look(name, &x, quotas, c.time) {
		answer.Windows = append(answer.Windows, stateOf(s))
	}
	return answer, nil
}

func stateOf(s limit.State) windowState {
	return windowState{
		Window: *s.Window, Max: s.Max, Remaining: s.Remaining,
		ResetSeconds: s.Reset.Round(time.Millisecond).Seconds(), Held: s.Held, Estimated: s.Estimated,
	}
}

// client returns the client of a limit's key, and the list.
func (k *limitKey) client(g *generation, l *ruleset.Limit) (c client, list *ruleset.List, err error) {
	bad := func(format string, args ...any) (client, *ruleset.List, error) {
		return c, nil, adminError(http.StatusBadRequest, format, args...)
	}
	if list = k.list(g, l); list == nil {
		return bad("list: name a list of the limit %s", l.Name)
	}
	c = client{time: clock.Now(), userAgent: k.UserAgent, user: k.User, channel: k.Channel}
	if k.IP != "" {
		if c.ip, err = netip.ParseAddr(k.IP); err != nil {
			return bad("ip: not an address such as 192.0.2.7 or 2001:db8::7")
		}
	}
	c.who = visitors.Client(c.ip, k.UserAgent)
	if k.Visitor != "" {
		c.who = visitors.Named(k.Visitor)
	}
	c.bot = g.bots.Classify(k.UserAgent, c.ip)
	if k.Device != "" {
		c.bot.Device = k.Device
	}
	visitor := k.Visitor != "" || k.IP != "" && k.UserAgent != ""
	for _, d := range l.By {
		switch {
		case d == ruleset.ByIP && k.IP == "":
			return bad("ip: missing, because the limit %s counts by it", l.Name)
		case d == ruleset.ByItem && k.Item == "":
			return bad("item: missing, because the limit %s counts by it", l.Name)
		case d == ruleset.ByDevice && k.Device == "" && k.UserAgent == "":
			return bad("device: missing, because the limit %s counts by it", l.Name)
		case d == ruleset.ByVisitor && !visitor:
			return bad("visitor: missing, because the limit %s counts by it; ip and user_agent replace it on sites that name no visitors", l.Name)
		case d == ruleset.ByUser && k.User == "" && !visitor:
			return bad("user: missing, because the limit %s counts by it; visitor, or ip and user_agent, replace it if nobody is signed in", l.Name)
		}
	}
	return c, list, nil
}

// list returns the list of a key. The default is the limit's only list.
func (k *limitKey) list(g *generation, l *ruleset.Limit) *ruleset.List {
	var found []*ruleset.List
	for _, list := range g.rules.Lists {
		if l.AppliesToList(list.Name) && (k.List == "" || k.List == list.Name) {
			found = append(found, list)
		}
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// adminBots answers POST /hotboard/bots: the verdict on a client.
func adminBots(r adminRequest) (any, error) {
	var body struct {
		UserAgent *string `json:"user_agent"`
		IP        string  `json:"ip"`
	}
	if err := readAdminBody(r, &body); err != nil {
		return nil, err
	}
	if body.UserAgent == nil {
		return nil, adminError(http.StatusBadRequest, `user_agent is missing: send {"user_agent": "…"}`)
	}
	var ip netip.Addr
	if body.IP != "" {
		var err error
		if ip, err = netip.ParseAddr(body.IP); err != nil {
			return nil, adminError(http.StatusBadRequest, "ip: not an address such as 192.0.2.7 or 2001:db8::7")
		}
	}
	v := r.bots.Classify(*body.UserAgent, ip)
	answer := struct {
		Bot       bool   `json:"bot"`
		Class     string `json:"class,omitempty"`
		Reason    string `json:"reason,omitempty"`
		Device    string `json:"device"`
		CountedOn string `json:"counted_on,omitempty"` // the list that counts such bots
	}{Bot: v.Bot, Class: v.Class, Reason: v.Reason, Device: v.Device}
	if v.Bot {
		answer.CountedOn = nameOf(r.rules.CountBot(v.Class))
	}
	return answer, nil
}

// readAdminBody reads a JSON object. It refuses unknown members: an operator who
// mistypes a name would see another key.
func readAdminBody(r adminRequest, into any) error {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxBodyBytes))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the body is empty")
		}
		return adminError(http.StatusBadRequest, "the body is not the JSON object described in docs/admin.md: %v", err)
	}
	return nil
}

var _ caddy.AdminRouter = (*AdminAPI)(nil)
