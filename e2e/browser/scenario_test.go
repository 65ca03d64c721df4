package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hotboard/hotboard/ruleset"
)

// scenario is one visitor on the pages of a list of its own.
type scenario struct {
	*testing.T
	*site
	*tab
	list string
	want tally
}

// tally is the result of a scenario.
type tally struct {
	Beacons []beacon // in any order: several may be on their way at once
	// Requests counts the edge's verdicts on requests and beacons.
	Requests map[ruleset.Reason]int
	// Items are the counted items, by id.
	Items map[string]views
}

// views are the counted views of an item, and the same visitor's duplicates.
type views struct{ Counted, Duplicates int }

// readers reports one view of an item by each of n visitors.
func (s *scenario) readers(item string, n int) {
	s.Helper()
	for from := 0; from < n; from += 500 {
		var views []map[string]string
		for i := from; i < min(n, from+500); i++ {
			views = append(views, map[string]string{"list": s.list, "articleId": item, "fingerprint": fmt.Sprint(item, i)})
		}
		body, err := json.Marshal(views)
		if err != nil {
			s.Fatal(err)
		}
		req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.edgeURL+"/api/views", bytes.NewReader(body))
		if err != nil {
			s.Fatal(err)
		}
		req.Header.Set("User-Agent", devices[0].userAgent)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			s.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			s.Fatalf("reporting %d views: %s", len(views), resp.Status)
		}
	}
}

// path returns the path of a page of the list.
func (s *scenario) path(id string) string { return "/" + s.list + "/" + id }

const scriptTag = `<script src="/hotboard.js" async></script>`

// have makes pages with the script.
func (s *scenario) have(ids ...string) {
	for _, id := range ids {
		s.serve(s.path(id), webpage{html: scriptTag + "<h1>" + id + "</h1>"})
	}
}

// serve makes a page, whose html needs no head.
func (s *scenario) serve(path string, p webpage) {
	p.html = "<!DOCTYPE html>\n<html lang=en><meta name=viewport content=width=device-width><title>" + path + "</title>\n" + p.html
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = p
}

// expect waits until the scenario has the expected result.
func (s *scenario) expect(want tally) {
	s.Helper()
	s.want = want
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		diff := s.differs()
		if diff == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.Fatalf("what came of it (+) is not what should (-):\n%s", diff)
		}
	}
}

// differs returns how the tally differs from the expected one. At the end of the
// test, another call finds late changes.
func (s *scenario) differs() string {
	got := tally{Requests: map[ruleset.Reason]int{}, Items: map[string]views{}}
	got.Beacons, _ = s.beacons(s.list)
	metrics, err := s.edge.Metrics()
	if err != nil {
		return err.Error()
	}
	for _, series := range metrics["hotboard_edge_requests_total"].GetMetric() {
		list, reason := series.GetLabel()[0], series.GetLabel()[1] // sorted by name
		if n := series.GetCounter().GetValue(); n > 0 && list.GetValue() == s.list {
			got.Requests[ruleset.Reason(reason.GetValue())] = int(n)
		}
	}
	var board struct{ Items []struct{ ID string } }
	if err := s.read("/hot?period=all&limit=100&list="+s.list, &board); err != nil {
		return err.Error()
	}
	for _, row := range board.Items {
		var item struct{ Views, Duplicates int }
		if err := s.read("/api/items/"+s.list+"/"+row.ID, &item); err != nil {
			return err.Error()
		}
		got.Items[row.ID] = views{item.Views, item.Duplicates}
	}
	want := s.want
	if want.Items == nil {
		want.Items = map[string]views{}
	}
	for _, beacons := range [][]beacon{want.Beacons, got.Beacons} {
		slices.SortFunc(beacons, func(a, b beacon) int { return strings.Compare(a.Page, b.Page) })
	}
	return cmp.Diff(want, got)
}

// read asks the Caddy for its counts.
func (s *scenario) read(path string, v any) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.edgeURL+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}
