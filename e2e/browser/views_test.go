package browser

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/hotboard/hotboard/ruleset"
)

// requests is short for the edge's verdicts on requests and beacons.
type requests = map[ruleset.Reason]int

var scenarios = []struct {
	name string
	run  func(*scenario)
}{
	{"plain", func(s *scenario) {
		s.have("a")
		s.visit(s.URL + s.path("a"))
		s.expect(tally{Requests: requests{"counted": 1}, Items: map[string]views{"a": {1, 0}}})
	}},
	{"reload", func(s *scenario) {
		s.have("a")
		s.serve(s.path("b"), webpage{html: scriptTag, header: []string{"ETag", `"b"`}})
		for _, id := range []string{"a", "b"} {
			s.visit(s.URL + s.path(id))
			s.do(chromedp.Reload())
		}
		s.await(s.T, "304", func(r request) bool { return r.uri == s.path("b") && r.status == 304 })
		s.expect(tally{Requests: requests{"counted": 4}, Items: map[string]views{"a": {1, 1}, "b": {1, 1}}})
	}},
	{"revalidated", func(s *scenario) {
		s.serve(s.path("a"), webpage{html: scriptTag, header: []string{"ETag", `"a"`, "Cache-Control", "no-cache"}})
		s.have("b")
		for _, id := range []string{"a", "b", "a"} {
			s.visit(s.URL + s.path(id))
		}
		s.expect(tally{Requests: requests{"counted": 3}, Items: map[string]views{"a": {1, 1}, "b": {1, 0}}})
	}},
	{"slow", func(s *scenario) { // the script runs while the page is still arriving
		s.serve(s.path("a"), webpage{
			html: `<script src="/hotboard.js"></script><script>fetch("/-/ran` + s.path("a") + `")</script>`,
			rest: "the end",
		})
		go func() {
			s.said(s.T, "/-/ran"+s.path("a"))
			s.open(s.path("a"))
		}()
		s.visit(s.URL + s.path("a"))
		s.expect(tally{Requests: requests{"counted": 1}, Items: map[string]views{"a": {1, 0}}})
	}},
	{"spa", singlePage},
	{"spa-history", func(s *scenario) { // a browser without the Navigation API
		s.before(`window.navigation = undefined`)
		singlePage(s)
	}},
	{"spa-intercepted", func(s *scenario) { // a router that is built on the Navigation API
		s.have("a")
		s.visit(s.URL + s.path("a"))
		eval[chromedp.Void](s.tab, `navigation.addEventListener("navigate", (e) => e.intercept());
			navigation.navigate("`+s.path("b")+`").finished.then(() => navigation.navigate("`+s.path("c")+`", { history: "replace" }).finished)`)
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("b"), Navigation: "spa"}},
			Requests: requests{"counted": 2},
			Items:    map[string]views{"a": {1, 0}, "b": {1, 0}},
		})
	}},
	{"prerendered", func(s *scenario) {
		s.prerender(s.path("b"), "?from=a", scriptTag)
		s.open(s.path("a"))
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("b") + "?from=a", Navigation: "prerender"}},
			Requests: requests{"counted": 2, "speculative": 1},
			Items:    map[string]views{"a": {1, 0}, "b": {1, 0}},
		})
	}},
	{"prerendered-late", func(s *scenario) { // the page asks for the script when it is shown
		s.prerender(s.path("b"), "", `<script>document.addEventListener("prerenderingchange", () => {
			document.head.append(Object.assign(document.createElement("script"), { src: "/hotboard.js" }));
		})</script>`)
		s.open(s.path("a"))
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("b"), Navigation: "prerender"}},
			Requests: requests{"counted": 2, "speculative": 1},
			Items:    map[string]views{"a": {1, 0}, "b": {1, 0}},
		})
	}},
	{"never-shown", func(s *scenario) {
		s.have("c")
		s.prerender(s.path("b"), "", scriptTag)
		s.open(s.path("a") + "/leave")
		s.await(s.T, "next page", func(r request) bool { return r.uri == s.path("c") })
		s.expect(tally{
			Requests: requests{"counted": 2, "speculative": 1},
			Items:    map[string]views{"a": {1, 0}, "c": {1, 0}},
		})
	}},
	{"prefetched", func(s *scenario) {
		s.have("b", "c")
		s.serve(s.path("a"), webpage{html: scriptTag + `<a href="` + s.path("b") + `">b</a>
			<script type=speculationrules>{"prefetch":[{"urls":["` + s.path("b") + `","` + s.path("c") + `"],"eagerness":"immediate"}]}</script>`})
		s.visit(s.URL + s.path("a"))
		for _, id := range []string{"b", "c"} {
			s.await(s.T, "prefetch", func(r request) bool { return r.uri == s.path(id) && r.purpose == "prefetch" })
		}
		s.follow("a")
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("b"), Navigation: "load"}},
			Requests: requests{"counted": 2, "speculative": 2},
			Items:    map[string]views{"a": {1, 0}, "b": {1, 0}},
		})
	}},
	{"link-prefetched", func(s *scenario) { // the old way: the page is in the browser's cache
		s.serve(s.path("b"), webpage{html: scriptTag, header: []string{"Cache-Control", "max-age=600"}})
		s.serve(s.path("a"), webpage{html: scriptTag + `<link rel=prefetch href="` + s.path("b") + `"><a href="` + s.path("b") + `">b</a>`})
		s.visit(s.URL + s.path("a"))
		s.await(s.T, "prefetch", func(r request) bool { return r.uri == s.path("b") && r.purpose == "prefetch" })
		s.follow("a")
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("b"), Navigation: "load"}},
			Requests: requests{"counted": 2, "speculative": 1},
			Items:    map[string]views{"a": {1, 0}, "b": {1, 0}},
		})
	}},
	{"back-forward-cache", func(s *scenario) {
		s.have("a", "b")
		s.visit(s.URL + s.path("a"))
		s.visit(s.URL + s.path("b"))
		eval[chromedp.Void](s.tab, `setTimeout(() => history.back())`)
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("a"), Navigation: "restore"}},
			Requests: requests{"counted": 3},
			Items:    map[string]views{"a": {1, 1}, "b": {1, 0}},
		})
	}},
	{"cached", func(s *scenario) {
		s.serve(s.path("a"), webpage{html: scriptTag, header: []string{"Cache-Control", "max-age=600"}})
		s.have("b")
		for _, id := range []string{"a", "b", "a"} {
			s.visit(s.URL + s.path(id))
		}
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("a"), Navigation: "load"}},
			Requests: requests{"counted": 3},
			Items:    map[string]views{"a": {1, 1}, "b": {1, 0}},
		})
	}},
	{"always", func(s *scenario) {
		s.serve(s.path("a"), webpage{html: always})
		s.visit(s.URL + s.path("a") + "?x=1")
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("a") + "?x=1", Navigation: "load"}},
			Requests: requests{"counted": 2},
			Items:    map[string]views{"a": {1, 1}},
		})
	}},
	{"attributes", func(s *scenario) { // of the loaded page, and not of others
		s.serve(s.path("deeper/page"), webpage{html: `<script src="/hotboard.js" async data-always
			data-item="the item" data-list="` + s.list + `" data-published="2026-01-02T03:04:05Z"></script>`})
		s.visit(s.URL + s.path("deeper/page"))
		eval[chromedp.Void](s.tab, `history.pushState(null, "", "`+s.path("b")+`")`)
		s.expect(tally{
			Beacons: []beacon{
				{Page: s.path("deeper/page"), Navigation: "load", ArticleID: "the item", List: s.list, PublishedAt: "2026-01-02T03:04:05Z"},
				{Page: s.path("b"), Navigation: "spa"},
			},
			Requests: requests{"counted": 2},
			Items:    map[string]views{"the item": {1, 0}, "b": {1, 0}},
		})
	}},
	{"twice", func(s *scenario) { // the script is on the page twice
		s.serve(s.path("a"), webpage{html: always + always})
		s.visit(s.URL + s.path("a"))
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("a"), Navigation: "load"}},
			Requests: requests{"counted": 2},
			Items:    map[string]views{"a": {1, 1}},
		})
	}},
	{"frame", func(s *scenario) { // views in a frame do not count at the edge either
		s.serve(s.path("a"), webpage{html: scriptTag + `<iframe src="` + s.path("b") + `"></iframe>`})
		s.serve(s.path("b"), webpage{html: always})
		s.visit(s.URL + s.path("a"))
		s.expect(tally{Requests: requests{"counted": 1, "not_document": 1}, Items: map[string]views{"a": {1, 0}}})
	}},
	{"background", func(s *scenario) { // a tab that nobody looks at until later
		const says = `<script>addEventListener("load", () => fetch("/-/loaded" + location.pathname + "?" + document.visibilityState))</script>`
		s.serve(s.path("a"), webpage{html: always + says})
		s.serve(s.path("b"), webpage{html: always + says + `<script>
			addEventListener("load", () => setTimeout(() => history.pushState(null, "", "b2"), 1));
			addEventListener("load", () => setTimeout(() => history.pushState(null, "", "b3"), 2));
			addEventListener("load", () => setTimeout(() => fetch("/-/moved" + location.pathname), 3));</script>`})
		s.have("c")
		s.visit(s.URL + s.path("c"))
		tabs := map[string]target.ID{}
		for _, id := range []string{"a", "b"} {
			tabs[id] = s.openTab(s.URL+s.path(id), true)
			s.said(s.T, "/-/loaded"+s.path(id)+"?hidden")
		}
		s.said(s.T, "/-/moved"+s.path("b3"))
		if _, err := chromedp.CallBrowser(s.ctx, target.ActivateTarget, target.ActivateTargetParams{TargetID: tabs["b"]}); err != nil {
			s.Fatal(err)
		}
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("b3"), Navigation: "spa"}},
			Requests: requests{"counted": 4},
			Items:    map[string]views{"a": {1, 0}, "b": {1, 0}, "b3": {1, 0}, "c": {1, 0}},
		})
	}},
	{"opt-out", func(s *scenario) {
		s.serve(s.path("a"), webpage{html: always})
		s.optOut()
		s.visit(s.Heeding + s.path("a"))
		eval[chromedp.Void](s.tab, `history.pushState(null, "", "`+s.path("b")+`")`)
		s.expect(tally{Requests: requests{"opt_out": 1}})
	}},
	{"opt-out-unheeded", func(s *scenario) { // a site that ignores it
		s.serve(s.path("a"), webpage{html: always})
		s.optOut()
		s.visit(s.URL + s.path("a"))
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("a"), Navigation: "load"}},
			Requests: requests{"counted": 2},
			Items:    map[string]views{"a": {1, 1}},
		})
	}},
	{"busy", func(s *scenario) {
		s.serve(s.path("a"), webpage{html: always})
		s.answerBusy(2)
		s.visit(s.URL + s.path("a"))
		sent := beacon{Page: s.path("a"), Navigation: "load"}
		s.expect(tally{
			Beacons:  []beacon{sent, sent, sent},
			Requests: requests{"counted": 2},
			Items:    map[string]views{"a": {1, 1}},
		})
		if _, statuses := s.beacons(s.list); !slices.Equal(statuses, []int{503, 503, 202}) {
			s.Errorf("the answers were %v", statuses)
		}
	}},
	{"too-busy", func(s *scenario) { // the script gives up
		s.serve(s.path("a"), webpage{html: always})
		s.answerBusy(9)
		s.visit(s.URL + s.path("a"))
		sent := beacon{Page: s.path("a"), Navigation: "load"}
		s.expect(tally{
			Beacons:  []beacon{sent, sent, sent},
			Requests: requests{"counted": 1},
			Items:    map[string]views{"a": {1, 0}},
		})
	}},
	{"other-site", func(s *scenario) { // named in allow_origins
		s.serve(s.path("a"), webpage{html: `<script src="` + s.URL + `/hotboard.js" async data-always></script>`})
		s.visit(s.Other + s.path("a"))
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("a"), Navigation: "load"}},
			Requests: requests{"counted": 1},
			Items:    map[string]views{"a": {1, 0}},
		})
	}},
	{"strict-policy", func(s *scenario) {
		s.serve(s.path("a"), webpage{
			html: always + `<hot-list list="` + s.list + `" href="/x/{id}"></hot-list> <hot-count list="` + s.list + `" item="a"></hot-count>`,
			header: []string{"Content-Security-Policy",
				"default-src 'none'; script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"},
		})
		s.visit(s.URL + s.path("a"))
		s.until(`[...document.querySelectorAll("hot-list, hot-count")].every((e) => e.matches("[state=ready], [state=empty]"))`)
		s.expect(tally{
			Beacons:  []beacon{{Page: s.path("a"), Navigation: "load"}},
			Requests: requests{"counted": 2},
			Items:    map[string]views{"a": {1, 1}},
		})
	}},
	{"elements", elements},
}

const always = `<script src="/hotboard.js" async data-always></script>`

// singlePage walks through an application that shows its pages itself.
func singlePage(s *scenario) {
	s.have("a")
	s.visit(s.URL + s.path("a"))
	// After each step the script has time to report it. Of a series of unseen pages it
	// reports only the last.
	eval[chromedp.Void](s.tab, `(async () => {
		const turn = () => new Promise((done) => setTimeout(done));
		const here = (path) => { history.pushState(null, "", path); return turn(); };
		const correct = (path) => { history.replaceState(null, "", path); return turn(); };
		const back = () => new Promise((done) => { addEventListener("popstate", done, { once: true }); history.back(); }).then(turn);
		await correct("?q=1");
		await here("?q=2");
		await here("#x");
		location.hash = "y";
		await turn();
		await here("a");
		await here("a/");
		await correct("../corrected");
		await here("corrected?q");
		history.pushState(null, "", "unseen");
		await here("b");
		await here("b?x=1");
		await back(); // b
		await back(); // unseen
		await back(); // corrected?q
	})()`)
	s.expect(tally{
		Beacons: []beacon{
			{Page: s.path("b"), Navigation: "spa"},
			{Page: s.path("corrected?q"), Navigation: "spa"},
			{Page: s.path("unseen"), Navigation: "spa"}, // the way back shows it
		},
		Requests: requests{"counted": 4},
		Items:    map[string]views{"a": {1, 0}, "b": {1, 0}, "corrected": {1, 0}, "unseen": {1, 0}},
	})
}

// until waits until a condition holds in the page.
func (b *tab) until(condition string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](condition, chromedp.WithPollingInterval(20*time.Millisecond))); err != nil {
		b.t.Fatalf("%s: %v; the page is %s", condition, err, eval[string](b, `document.documentElement.outerHTML`))
	}
}

// follow clicks the first link that matches a selector, and waits for its page.
func (b *tab) follow(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// openTab opens a page in a tab without a debugger: Chromium prerenders nothing for
// tabs with one.
func (s *scenario) openTab(url string, background bool) target.ID {
	s.Helper()
	context := chromedp.FromContext(s.ctx)
	info, err := cdp.Call(s.ctx, context.Target, target.GetTargetInfo, target.GetTargetInfoParams{})
	if err != nil {
		s.Fatal(err)
	}
	r, err := chromedp.CallBrowser(s.ctx, target.CreateTarget, target.CreateTargetParams{
		URL: url, BrowserContextID: info.TargetInfo.BrowserContextID, Background: &background,
	})
	if err != nil {
		s.Fatal(err)
	}
	return r.TargetID
}

// prerender opens page a, which makes the browser prerender another page with the
// given html. It goes there when the gate of its path opens, and to page c when the
// one with /leave after it does.
func (s *scenario) prerender(path, query, html string) {
	s.Helper()
	a := s.path("a")
	s.serve(path, webpage{html: html + `<script>
		addEventListener("load", () => fetch("/-/loaded" + location.pathname + "?" + document.prerendering))</script>`})
	s.serve(a, webpage{html: scriptTag + `<a href="` + path + query + `">next</a>
		<script type=speculationrules>{"prerender":[{"urls":["` + path + query + `"],"eagerness":"immediate"}]}</script>
		<script>
			fetch("/-/gate` + a + `").then(() => document.querySelector("a").click());
			fetch("/-/gate` + a + `/leave").then(() => location.assign("` + s.path("c") + `"));
		</script>`})
	s.openTab(s.URL+a, false)
	s.said(s.T, "/-/loaded"+path+"?true")
}

// optOut makes the browser send its user's opt-out.
func (s *scenario) optOut() {
	s.Helper()
	s.before(`Object.defineProperty(Navigator.prototype, "globalPrivacyControl", { get: () => true })`)
	s.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Sec-GPC": "1"}})
		return err
	}))
}

// answerBusy answers the next n beacons of the scenario with 503.
func (s *scenario) answerBusy(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[s.list] = n
}

func TestViews(t *testing.T) {
	var lists []string
	for _, d := range devices {
		for _, sc := range scenarios {
			lists = append(lists, sc.name+"-"+d.name)
		}
	}
	pages := startSite(t, lists)
	all := make(chan *scenario, len(lists))
	t.Run("scenarios", func(t *testing.T) {
		for _, d := range devices {
			browser := startBrowser(t, d)
			for _, sc := range scenarios {
				t.Run(d.name+"/"+sc.name, func(t *testing.T) {
					t.Parallel()
					s := &scenario{T: t, site: pages, tab: newTab(t, browser), list: sc.name + "-" + d.name}
					sc.run(s)
					s.noMistakes()
					all <- s
				})
			}
		}
	})
	close(all)
	for s := range all {
		if diff := s.differs(); diff != "" {
			t.Errorf("%s: later, what came of it (+) is not what should (-):\n%s", s.list, diff)
		}
	}
}
