package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hotboard/hotboard/caddymodule/script"
	"github.com/hotboard/hotboard/internal/reading"
	"github.com/hotboard/hotboard/ruleset"
)

// viewSuffix after a page's path is the endpoint that reports a view of it.
const viewSuffix = "/view"

// Handler counts the page views of a site, takes its votes, and serves the other
// endpoints. It passes all other requests through unchanged.
//
// It uses the path of the original request, before any rewrite. A matcher on the
// handler also restricts the endpoints.
//
// The placeholder `{http.vars.hotboard.reason}` contains the verdict on a
// request: `counted`, or the reason against it. It is empty for unrelated
// requests.
type Handler struct {
	// The names of this site's lists. Default: all.
	Lists []string `json:"lists,omitempty"`

	// The prefix of the endpoints' paths: with `/stats` the hot board is at
	// `/stats/hot`, and scripts report views to `/stats/api/views`. Default: no
	// prefix, so the paths are `/hot` and `/api/…`.
	Prefix string `json:"prefix,omitempty"`

	// Other sites whose pages may use the endpoints, as origins such as
	// `https://www.example.com`; `*` allows all.
	AllowOrigins origins `json:"allow_origins,omitempty"`

	// A placeholder for the visitor's name, for example
	// `{http.request.cookie.visitor}` for a cookie of the site, or
	// `{http.auth.user.id}`. Only a keyed hash of it leaves the edge. If it is
	// empty, and by default, a visitor is an address (for IPv6, the /64) with a
	// User-Agent.
	Visitor string `json:"visitor,omitempty"`

	// A placeholder for the signed-in user, for votes and for limits by user:
	// `{http.auth.user.id}` behind an authentication,
	// `{http.request.cookie.session}`, or `{http.request.header.X-User}` set by
	// forward_auth. If it is empty, and by default, the visitor replaces the
	// user. Only a keyed hash of it leaves the edge.
	User string `json:"user,omitempty"`

	// Whether a vote's body may name its user. Only for endpoints that visitors
	// cannot reach, because anyone can send any name. Default: false.
	UserFromBody bool `json:"user_from_body,omitempty"`

	// The sources of a request's channel, for limits and votes: placeholders such
	// as `{http.request.uri.query.utm_source}` or
	// `{http.request.header.X-Channel}`, and `referrer` for the host of another
	// site's page that led here. The first non-empty source counts: 1 to 64
	// bytes, which leave the edge unchanged. Default: requests have no channel.
	Channel []string `json:"channel,omitempty"`

	// How long the answer to a vote waits for the aggregator's verdict with the
	// new score and rank. At most 10s. Default: it does not wait.
	Confirm caddy.Duration `json:"confirm,omitempty"`

	// Whether to ignore views of visitors who opt out with `Sec-GPC: 1` or `DNT:
	// 1`. Default: false.
	HonorOptOut bool `json:"honor_opt_out,omitempty"`

	// Whether to send the verdict on a view in the response header
	// Hotboard-Verdict. It shows visitors what counts: use it to find mistakes,
	// not permanently. Default: false.
	DebugHeader bool `json:"debug_header,omitempty"`

	app    *App
	logger *zap.Logger
	script *script.Script
	latest atomic.Pointer[instance]
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.hotboard",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision finds the app and the lists.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	app, err := ctx.App("hotboard")
	if err != nil {
		return err
	}
	h.app = app.(*App)
	switch rules := h.app.own; {
	case rules == nil:
		h.app.named = append(h.app.named, h.Lists...)
	case len(rules.Lists) == 0:
		return errors.New("no lists: add one to the app hotboard (in a Caddyfile: the global option hotboard)")
	default:
		for _, name := range h.Lists {
			if rules.List(name) == nil {
				return fmt.Errorf("lists: unknown list %q", name)
			}
		}
	}
	h.script = script.New(h.HonorOptOut)
	return h.validate()
}

// ServeHTTP counts or answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.Context().Value(caddyhttp.ErrorCtxKey) != nil {
		return next.ServeHTTP(w, r) // an error page; its request was already judged
	}
	return h.current().serve(w, r, next)
}

// instance is a handler with one generation of the rules. A request meets one
// instance from its arrival to its hit, whatever happens to the rules meanwhile.
type instance struct {
	*Handler
	*generation
	lists []*ruleset.List // of this handler
	every bool            // lists are all lists
}

// current returns the instance with the rules in force.
func (h *Handler) current() *instance {
	if h.app.own == nil && h.app.rt.Load() == nil {
		h.app.acquire() // has the rules followed last; an error has other witnesses
	}
	g := h.app.generation.Load()
	if in := h.latest.Load(); in != nil && in.generation == g {
		return in
	}
	in := &instance{Handler: h, generation: g, lists: g.rules.Lists, every: true}
	if len(h.Lists) > 0 {
		in.lists, in.every = nil, false
		for _, name := range h.Lists {
			if l := g.rules.List(name); l != nil {
				in.lists = append(in.lists, l)
			}
		}
	}
	h.latest.Store(in)
	return in
}

func (h *instance) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	ctx := r.Context()
	asked := r.URL
	if orig, ok := ctx.Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		asked = orig.URL
	}
	if h.serveEndpoint(w, r, asked) {
		return nil
	}
	var few [4]ruleset.Target // stays on the stack: most requests match nothing
	targets := h.match(few[:0], asked.Path)
	if len(targets) == 0 {
		return next.ServeHTTP(w, r)
	}
	return h.serveView(w, r, next, asked, targets)
}

// serveEndpoint answers r if it is for an endpoint.
func (h *instance) serveEndpoint(w http.ResponseWriter, r *http.Request, asked *url.URL) bool {
	if rest, ok := strings.CutPrefix(asked.Path, h.Prefix); ok && (rest == "/hot" || rest == script.Path || strings.HasPrefix(rest, "/api/")) {
		if rest == script.Path {
			h.answer(w, r, "GET, HEAD", func(w http.ResponseWriter, r *http.Request) *problem {
				h.script.ServeHTTP(w, r)
				return nil
			})
			return true
		}
		if rest == "/api/views" {
			h.answer(w, r, http.MethodPost, h.serveViews)
			return true
		}
		if rest == "/api/votes" {
			h.answer(w, r, http.MethodPost, h.serveVotes)
			return true
		}
		// escaped, because an item's id may contain a slash
		if path := strings.TrimPrefix(asked.EscapedPath(), (&url.URL{Path: h.Prefix}).EscapedPath()); reading.Serves(path) {
			h.answer(w, r, reading.Methods(path), func(w http.ResponseWriter, r *http.Request) *problem {
				return h.serveBoards(w, r, path, asked.RawQuery)
			})
			return true
		}
	}
	if r.Method == http.MethodPut || r.Method == http.MethodOptions {
		if page, ok := strings.CutSuffix(asked.Path, viewSuffix); ok {
			// A list without page patterns lacks these endpoints.
			targets := slices.DeleteFunc(h.match(nil, page), func(t ruleset.Target) bool { return len(t.List.Pages) == 0 })
			if len(targets) > 0 {
				h.answer(w, r, http.MethodPut, func(w http.ResponseWriter, r *http.Request) *problem {
					return h.servePut(w, r, targets)
				})
				return true
			}
		}
	}
	return false
}

// answer does the common part of all endpoints.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, methods string, endpoint func(http.ResponseWriter, *http.Request) *problem) {
	h.AllowOrigins.share(w, r)
	if r.Method == http.MethodOptions && len(h.AllowOrigins) > 0 {
		h.AllowOrigins.preflight(w, methods)
		return
	}
	var p *problem
	if !slices.Contains(strings.Split(methods, ", "), r.Method) {
		p = methodNotAllowed(methods)
	} else {
		p = endpoint(w, r)
	}
	if p != nil {
		p.write(w)
	}
}

// match appends to dst the items of this site's lists that have the page path.
func (h *instance) match(dst []ruleset.Target, path string) []ruleset.Target {
	dst = h.rules.Match(dst, path)
	if h.every {
		return dst
	}
	return slices.DeleteFunc(dst, func(t ruleset.Target) bool { return !slices.Contains(h.lists, t.List) })
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
