package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/html"
)

const maxIndexBytes = 4 << 20

// site is the site under test, through one or several edges.
type site struct {
	edges  []*url.URL
	turn   atomic.Uint64 // the next edge
	list   string
	client *http.Client
}

func newSite(edges []*url.URL, list string) *site {
	return &site{edges: edges, list: list, client: &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: workers + 4,
			DisableCompression:  true, // the pages' content is ignored
		},
		// A redirect is not followed: it is not the requested page.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// do sends one request to the next edge and reads the answer to its end.
func (s *site) do(ctx context.Context, r request) (status int, err error) {
	edge := s.edges[s.turn.Add(1)%uint64(len(s.edges))]
	req, err := http.NewRequestWithContext(ctx, r.method, edge.JoinPath(r.path).String(), nil)
	if err != nil {
		return 0, err
	}
	req.Header = r.header
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}

// discover reads the index page and returns its links to articles, and its style
// sheets and scripts, each once and in the page's order.
func (s *site) discover(ctx context.Context, prefix string) (articles, assets []string, err error) {
	base := s.edges[0].JoinPath("/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the index page: %w; is the site running? For the quick start: go run ./caddymodule/cmd/caddy run --config caddyfile-examples/quickstart/Caddyfile", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("reading the index page: %s answered %s", base, resp.Status)
	}
	articles, assets = links(io.LimitReader(resp.Body, maxIndexBytes), base, prefix)
	if len(articles) == 0 {
		return nil, nil, fmt.Errorf("the index page %s links to no article under %s; -prefix sets where they are", base, prefix)
	}
	return articles, assets, nil
}

// links returns the paths in a page on base: articles, which are under prefix, and
// assets.
func links(page io.Reader, base *url.URL, prefix string) (articles, assets []string) {
	seen := map[string]bool{}
	add := func(to *[]string, ref string, ok func(path string) bool) {
		u, err := base.Parse(ref)
		if err != nil || u.Host != base.Host || seen[u.Path] || !ok(u.Path) {
			return
		}
		seen[u.Path] = true
		*to = append(*to, u.Path)
	}
	isArticle := func(p string) bool { return strings.HasPrefix(p, prefix) && len(p) > len(prefix) }
	isAsset := func(p string) bool { e := path.Ext(p); return e == ".css" || e == ".js" }

	for z := html.NewTokenizer(page); z.Next() != html.ErrorToken; {
		token := z.Token()
		if token.Type != html.StartTagToken && token.Type != html.SelfClosingTagToken {
			continue
		}
		for _, a := range token.Attr {
			switch {
			case token.Data == "a" && a.Key == "href":
				add(&articles, a.Val, isArticle)
			case token.Data == "link" && a.Key == "href", token.Data == "script" && a.Key == "src":
				add(&assets, a.Val, isAsset)
			}
		}
	}
	return articles, assets
}

// board is the part of the answer to /hot that the screen shows.
type board struct {
	Items []struct {
		Rank  int     `json:"rank"`
		ID    string  `json:"id"`
		Score float64 `json:"score"`
		Views int64   `json:"views"`
	} `json:"items"`
}

func (s *site) hot(ctx context.Context, limit int) (*board, error) {
	b := &board{}
	q := url.Values{"list": {s.list}, "period": {"hot"}, "limit": {fmt.Sprint(limit)}}
	return b, s.get(ctx, "/hot", q, b)
}

// totals are a list's totals since the beginning.
type totals struct {
	Views      int64 `json:"views"`
	Duplicates int64 `json:"duplicates"`
}

func (t totals) minus(u totals) totals {
	return totals{t.Views - u.Views, t.Duplicates - u.Duplicates}
}

func (s *site) totals(ctx context.Context) (totals, error) {
	var stats struct {
		Periods map[string]totals `json:"periods"`
	}
	if err := s.get(ctx, "/api/stats/"+url.PathEscape(s.list), nil, &stats); err != nil {
		return totals{}, err
	}
	all, ok := stats.Periods["all"]
	if !ok {
		return totals{}, fmt.Errorf("list %q keeps no board \"all\", so its count cannot be compared", s.list)
	}
	return all, nil
}

// settle waits until the site's count has grown by the expected number, or until
// ctx ends; it returns the last count.
func (s *site) settle(ctx context.Context, before, expected totals) (totals, error) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	now, known := totals{}, false
	for {
		t, err := s.totals(ctx)
		if err == nil {
			if now, known = t, true; now.minus(before) == expected {
				return now, nil
			}
		}
		select {
		case <-ctx.Done():
			if known {
				return now, nil
			}
			return now, err
		case <-tick.C:
		}
	}
}

func (s *site) get(ctx context.Context, path string, query url.Values, into any) error {
	u := s.edges[0].JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("reading %s: %w", u, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxIndexBytes))
	if err != nil {
		return fmt.Errorf("reading %s: %w", u, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("reading %s: %s: %.200s", u, resp.Status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading %s: %w", u, err)
	}
	return nil
}
