package browser

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/chromedp/chromedp"
)

// bad is an id that anybody can report a view of.
const bad = `<img src=x onerror="mistakes.push('run')">/&`

func elements(s *scenario) {
	s.readers("a", 3)
	s.readers("2026/b c", 1234)
	s.readers(bad, 2)
	counted := tally{
		Requests: requests{"counted": 1239},
		Items:    map[string]views{"a": {3, 0}, "2026/b c": {1234, 0}, bad: {2, 0}},
	}
	s.expect(counted)

	list := ` list=` + s.list + ` period=all `
	s.serve("/index/"+s.list, webpage{html: `<script src="/hotboard.js" async></script>
		<script>addEventListener("hotboard", (e) => {
			if (e.target.id === "titled") for (const item of e.detail.items) item.title = "Title of " + item.id;
		})</script>
		<hot-list id=plain ` + list + ` href="/read/{id}"></hot-list>
		<hot-list id=short ` + list + ` limit=1></hot-list>
		<hot-list id=titled ` + list + `><template><li><b data-field=rank></b> <i data-field=title></i></li></template></hot-list>
		<hot-list id=own ` + list + ` refresh=1>
			<ol><li data-item=other><a href=/own/other>Other</a><li data-item=a><a href=/own/a>A</a> <b data-field=views></b><li data-item="2026/b c">B</ol>
		</hot-list>
		<hot-list id=missing list=nobody><ol><li data-item=a>A</ol></hot-list>
		<hot-list id=empty list=` + s.list + ` period=hot src="/index/` + s.list + `/board.json"></hot-list>
		<hot-count id=c1 list=` + s.list + ` item="2026/b c"></hot-count>
		<hot-count id=c2 list=` + s.list + ` item=a field=boards.all.rank></hot-count>
		<hot-count id=c3 list=` + s.list + ` item=other>some</hot-count>
		<hot-count id=c4 list=nobody item=a>as it was</hot-count>`})
	s.mu.Lock()
	s.pages["/index/"+s.list+"/board.json"] = webpage{html: `{"items":[]}`, header: []string{"Content-Type", "application/json", "Hotboard-Stale", "1"}}
	s.mu.Unlock()
	s.visit(s.URL + "/index/" + s.list)
	s.until(`[...document.querySelectorAll("hot-list, hot-count")].every((e) => e.matches("[state]:not([state=loading])"))`)

	// One line for each element.
	got := eval[map[string]string](s.tab, `Object.fromEntries([...document.querySelectorAll("hot-list, hot-count")].map((e) => [e.id,
		e.getAttribute("state") + (e.hasAttribute("stale") ? " stale" : "") + ": " +
		(e.matches("hot-count") ? e.textContent : [...e.querySelectorAll("li:not([hidden])")].map((li) => li.innerText.trim()).join(" | "))]))`)
	for id, want := range map[string]string{
		"plain":   "ready: 2026/b c 1,234 | a 3 | " + bad + " 2",
		"short":   "ready: 2026/b c 1,234",
		"titled":  "ready: 1 Title of 2026/b c | 2 Title of a | 3 Title of " + bad,
		"own":     "ready: B | A 3",
		"missing": "error: A",
		"empty":   "empty stale: ",
		"c1":      "ready: 1,234",
		"c2":      "ready: 2",
		"c3":      "empty: 0",
		"c4":      "error: as it was",
	} {
		if got[id] != want {
			s.Errorf("%s shows\n%s, want\n%s", id, got[id], want)
		}
	}
	links := eval[[]string](s.tab, `[...document.querySelectorAll("#plain a")].map((a) => a.getAttribute("href"))`)
	if want := []string{"/read/2026/b%20c", "/read/a", "/read/%3Cimg%20src%3Dx%20onerror%3D%22mistakes.push('run')%22%3E/%26"}; !slices.Equal(links, want) {
		s.Errorf("the links go to %q, want %q", links, want)
	}

	s.mu.Lock()
	var asked []string
	for _, r := range s.log {
		if r.uri == "/api/items" && strings.Contains(r.body, `"`+s.list+`"`) {
			asked = append(asked, r.body)
		}
	}
	s.mu.Unlock()
	want, err := json.Marshal(map[string]any{"list": s.list, "items": []string{"2026/b c", "a", "other"}})
	if err != nil {
		s.Fatal(err)
	}
	if len(asked) != 1 || !sameJSON(asked[0], string(want)) {
		s.Errorf("the counts of the page were asked for with %q, want one request %s", asked, want)
	}

	// The list moves under a visitor's pointer.
	eval[chromedp.Void](s.tab, `document.querySelector("#own a[href='/own/a']").focus()`)
	s.readers("other", 1300)
	s.until(`[...document.querySelectorAll("#own li:not([hidden])")].map((li) => li.dataset.item).join() === "other,2026/b c,a"`)
	s.readers("a", 1400)
	s.until(`[...document.querySelectorAll("#own li:not([hidden])")].map((li) => li.dataset.item).join() === "a,other,2026/b c"`)
	if on := eval[string](s.tab, `document.activeElement.getAttribute("href")`); on != "/own/a" {
		s.Errorf("the focus has gone to %q", on)
	}
	// The element follows changes of its attributes.
	eval[chromedp.Void](s.tab, `document.querySelector("#short").setAttribute("limit", 2)`)
	s.until(`document.querySelectorAll("#short li").length === 2`)
	eval[chromedp.Void](s.tab, `document.querySelector("#own").remove()`)

	// An answer to the old attributes comes too late.
	slow := "/index/" + s.list + "/slow.json"
	s.mu.Lock()
	s.pages[slow] = webpage{html: `{"items":[{"id":"late"`, rest: `}]}`}
	s.mu.Unlock()
	eval[chromedp.Void](s.tab, `const json = Response.prototype.json;
		const read = [];
		Response.prototype.json = function () { return json.call(this).finally(() => read.push(this.url)); };
		document.querySelector("#empty").setAttribute("src", "`+slow+`"); new Promise((done) => setTimeout(done))`)
	eval[chromedp.Void](s.tab, `document.querySelector("#empty").setAttribute("src", "/index/`+s.list+`/board.json?again"); new Promise((done) => setTimeout(done))`)
	s.until(`read.some((url) => url.endsWith("?again"))`)
	s.open(slow)
	s.until(`read.some((url) => url.endsWith("slow.json"))`)
	if late := eval[string](s.tab, `new Promise((done) => setTimeout(done)).then(() => document.querySelector("#empty").textContent)`); late != "" {
		s.Errorf("the list shows %q", late)
	}

	// More counts than one request may ask for.
	eval[chromedp.Void](s.tab, `for (let i = 0; i < 250; i++) {
		document.body.append(Object.assign(document.createElement("p"), { innerHTML: "<hot-count list=`+s.list+` item=n" + i + "></hot-count>" }));
	}`)
	s.until(`document.querySelectorAll("p hot-count[state=empty]").length === 250`)

	counted.Requests["counted"] += 2700
	counted.Items["a"] = views{1400, 3}
	counted.Items["other"] = views{1300, 0}
	s.expect(counted)
}

func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	first, _ := json.Marshal(x)
	second, _ := json.Marshal(y)
	return string(first) == string(second)
}
