package ruleset

import (
	"net/http"
	"testing"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	r := MustCompile(Config{
		Lists: []*ListConfig{{Name: "articles", Pages: []string{"/articles/{id}"}}, {Name: "ai"}},
		Bots:  &Bots{Count: []BotCount{{List: "ai", Classes: []string{"ai_crawler"}}}},
	})
	document, image := header("Sec-Fetch-Dest", "document"), header("Sec-Fetch-Dest", "image")
	prerender := header("Sec-Fetch-Dest", "document", "Sec-Purpose", "prefetch;prerender")
	html, png := header("Content-Type", "text/html"), header("Content-Type", "image/png")
	for _, tt := range []struct {
		name     string
		request  Request
		status   int // default 200
		response http.Header
		bots     string // the list that counts the bot
		outcome  Reason // for the list that counts
		reason   Reason // for the page's list; default outcome
		final    bool
	}{
		{name: "a reader", request: Request{Header: document}, response: html},
		{name: "not found", request: Request{Header: document}, status: 404, response: html, outcome: Status},
		{name: "an image", request: Request{Header: document}, response: png, outcome: ContentType},
		{name: "an image, asked for as one", request: Request{Header: image}, response: html, outcome: NotDocument, final: true},
		{name: "prerendered", request: Request{Header: prerender}, response: html, reason: Speculative},
		{name: "prerendered, not found", request: Request{Header: prerender}, status: 404, outcome: Status, reason: Speculative},
		{name: "a form", request: Request{Method: "POST", Header: document}, response: html, outcome: Method, final: true},

		{name: "a bot that no list counts", request: Request{Header: document, BotClass: "monitor"}, response: html, outcome: Bot, final: true},
		{name: "a bot that a list counts", request: Request{Header: document, BotClass: "ai_crawler"}, response: html, bots: "ai", reason: Bot},
		{name: "it asks for anything", request: Request{Header: image, BotClass: "ai_crawler"}, response: html, bots: "ai", reason: Bot},
		{name: "it prefetches", request: Request{Header: prerender, BotClass: "ai_crawler"}, response: html, bots: "ai", reason: Bot},
		{name: "it finds nothing", request: Request{Header: document, BotClass: "ai_crawler"}, status: 404, bots: "ai", outcome: Status, reason: Bot},
		{name: "it sends HEAD", request: Request{Method: "HEAD", BotClass: "ai_crawler"}, outcome: Method, final: true},

		{name: "a line of a log", request: Request{Kind: LoggedRequest}},
		{name: "a line with a status", request: Request{Kind: LoggedRequest}, status: 500, outcome: Status},
		{name: "a line of a bot", request: Request{Kind: LoggedRequest, BotClass: "ai_crawler"}, bots: "ai", reason: Bot},

		{name: "an opt-out that the site honors", request: Request{Header: header("Sec-Fetch-Dest", "document", "Dnt", "1"), HonorOptOut: true}, outcome: OptOut, final: true},
		{name: "an opt-out that it does not", request: Request{Header: header("Sec-Fetch-Dest", "document", "Sec-Gpc", "1")}, response: html},
		{name: "Sec-GPC: 0", request: Request{Header: header("Sec-Fetch-Dest", "document", "Sec-Gpc", "0"), HonorOptOut: true}, response: html},
		{name: "an opt-out of what is prerendered", request: Request{Header: header("Sec-Fetch-Dest", "document", "Purpose", "prefetch", "Sec-Gpc", "1"), HonorOptOut: true}, outcome: OptOut, final: true},
	} {
		if tt.request.Method == "" {
			tt.request.Method = http.MethodGet
		}
		if tt.status == 0 {
			tt.status = http.StatusOK
		}
		if tt.reason == "" {
			tt.reason = tt.outcome
		}
		target := Target{List: r.List("articles"), Item: "a"}
		counting := r.List("articles")
		if tt.bots != "" {
			counting = r.List(tt.bots)
		}
		j := r.Judge(tt.request)
		outcome := j.Outcome(&target, tt.status, tt.response)
		if outcome != tt.outcome || j.Reason(outcome) != tt.reason || j.Final() != tt.final || j.Counting(&target) != counting || (j.Bots != nil) != (tt.bots != "") {
			t.Errorf("%s: outcome %q, reason %q, final %v, counted on %s; want %+v", tt.name, outcome, j.Reason(outcome), j.Final(), j.Counting(&target).Name, tt)
		}
	}
	if got := (Judgment{}).Outcome(&Target{List: r.List("articles"), Reason: BadItem}, 200, html); got != BadItem {
		t.Errorf("a page of no item: %q", got)
	}
}

func TestJudgeBeacon(t *testing.T) {
	t.Parallel()
	r := compiled(t, &ListConfig{Name: "articles", Pages: []string{"/articles/{id}"}}, &ListConfig{Name: "robots"})
	r.Bots = &Bots{Count: []BotCount{{List: "robots"}}}
	for _, tt := range []struct {
		name    string
		request Request
		want    Reason
	}{
		{"a script's fetch", Request{Header: header("Sec-Fetch-Dest", "empty", "Accept", "*/*")}, ""},
		{"no headers", Request{}, ""},
		{"a prerendered page", Request{Header: header("Sec-Purpose", "prefetch;prerender")}, Speculative},
		{"a preview", Request{Header: header("Purpose", "preview")}, Speculative},
		{"a bot, which no list counts", Request{BotClass: "ai_crawler"}, Bot},
		{"an opt-out", Request{Header: header("Dnt", "1"), HonorOptOut: true}, OptOut},
	} {
		tt.request.Kind = BeaconRequest
		if got := r.Judge(tt.request); got != (Judgment{Against: tt.want}) {
			t.Errorf("%s: %+v, want %q", tt.name, got, tt.want)
		}
	}
}
