package bots

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

func TestParsePatterns(t *testing.T) {
	t.Parallel()
	p := patterns(t, "\ufeff"+`[
	{"pattern": "Googlebot\\/", "url": "https://example.com", "instances": ["Googlebot/2.1"], "tags": ["search-engine"]},
	{"pattern": "[wW]get", "addition_date": "2012/05/04"},
	{"pattern": "^curl", "tags": ["unheard-of", "http-library"]},
	{"pattern": "(?i)ours", "tags": ["monitor"]}
]`)
	if p.Len() != 4 {
		t.Errorf("%d patterns", p.Len())
	}
	for _, tt := range []struct{ userAgent, class, reason string }{
		{"Googlebot/2.1", "search_engine", `pattern Googlebot\/`},
		{"googlebot/2.1", "-", ""},
		{"GNU wget", "", "pattern [wW]get"},
		{"GNU Wget", "", "pattern [wW]get"},
		{"GNU WGET", "-", ""},
		{"curl/8", "http_library", "pattern ^curl"},
		{"libcurl/8", "-", ""},
		{"Wget like curl", "", "pattern [wW]get"},
		{"curl like Wget", "", "pattern [wW]get"}, // the first of the file
		{"OURS", "monitor", "pattern (?i)ours"},
		{"", "-", ""},
	} {
		switch m := p.match(tt.userAgent); {
		case m == nil && tt.class == "-":
		case m == nil || m.class != tt.class || m.reason != tt.reason:
			t.Errorf("%q: %+v, want %q, %q", tt.userAgent, m, tt.class, tt.reason)
		}
	}
	long := patterns(t, `[{"pattern": "`+strings.Repeat("é", 200)+`"}]`)
	if r := long.all[0].reason; len(r) > 100 || !strings.HasSuffix(r, "é…") {
		t.Errorf("a long pattern gives the reason %q", r)
	}
}

func TestParsePatterns_Mistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ json, want string }{
		{``, "bots.json:1:1: invalid JSON: unexpected end"},
		{"[\n {\"pattern\": \"a\"}", "bots.json:2:17: invalid JSON: unexpected end"},
		{`{"pattern": "a"}`, "bots.json:1:1: want an array of objects"},
		{`null`, "bots.json:1:1: want an array of objects"},
		{`[null]`, "bots.json:1:2: [0].pattern: missing"},
		{`[] []`, "bots.json:1:4: invalid JSON"},
		{"[\n {\"pattern\": \"abc\"},\n {\"pattern\": ]\n]", "bots.json:3:14: invalid JSON"},
		{"[\n {\"pattern\": \"abc\"}\n {\"pattern\": \"abc\"}\n]", "bots.json:3:2: invalid JSON"},
		{"[\n {\"pattern\": \"abc\"},\n {\"patern\": \"abc\"}\n]", "bots.json:3:2: [1].pattern: missing"},
		{`["abc"]`, "bots.json:1:2: [0]: want an array of objects"},
		{`[{"pattern": 1}]`, "bots.json:1:2: [0].pattern: want a string, not a number"},
		{`[{"pattern": "abc", "tags": "seo"}]`, "bots.json:1:2: [0].tags: want an array of strings, not a string"},
		{`[{"pattern": "a(b"}]`, "bots.json:1:2: [0].pattern: error parsing regexp: missing closing ): `a(b`"},
		{`[{"pattern": "a(?!b)"}]`, "no lookaround"},
		{`[{"pattern": ""}]`, `[0].pattern: "" matches every User-Agent`},
		{`[{"pattern": "x*"}]`, `[0].pattern: "x*" matches every User-Agent`},
		{`[{"pattern": "` + strings.Repeat("a", maxPattern+1) + `"}]`, "[0].pattern: 1001 bytes: at most 1000 are allowed"},
		{"[" + strings.Repeat(`{"pattern": "a"},`, maxPatterns) + `{"pattern": "a"}]`, fmt.Sprintf("the file has more than %d patterns", maxPatterns)},
		{strings.Repeat(" ", maxPatternsBytes+1), "the file has more than 16 MB"},
	} {
		_, err := ParsePatterns("bots.json", []byte(tt.json))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80s\n got %v\nwant %s", tt.json, err, tt.want)
		}
	}
	_, err := ParsePatterns("bots.json", []byte(`[{"pattern": "("}, {"pattern": ""}, {}, {"pattern": "good"}]`))
	if n := len(configfile.Problems(err)); n != 3 {
		t.Errorf("%d mistakes are named, not 3: %v", n, err)
	}
}

func TestLoadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bots.json")
	if _, err := LoadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(path, []byte(`[{"pattern": "Ours"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := LoadFile(path); err != nil || p.match("Ours/1.0") == nil {
		t.Errorf("%v, %v", p, err)
	}
	if err := os.WriteFile(path, []byte(`[{"pattern": "("}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadFile(path); err == nil || !strings.Contains(err.Error(), path+":1:2") {
		t.Errorf("a mistake in the file: %v", err)
	}
}

// Every class of a tag is a documented class.
func TestClassOfTags(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"ai-crawler", "search-engine", "seo", "feed-reader", "http-library", "monitoring",
		"browser-automation", "social-preview", "archiver", "scanner", "advertising", "academic", "other"} {
		if c := classOfTags([]string{"unheard-of", tag}); !slices.Contains(ruleset.BotClasses, c) {
			t.Errorf("the tag %s is read as %q", tag, c)
		}
	}
	for _, f := range families() {
		if !slices.Contains(ruleset.BotClasses, f.class) {
			t.Errorf("a family has the class %q", f.class)
		}
	}
}

// plain is a slow reference model of Patterns.
type plain []*regexp.Regexp

func (p plain) match(userAgent string) int {
	return slices.IndexFunc(p, func(re *regexp.Regexp) bool { return re.MatchString(userAgent) })
}

// Compiled patterns match the same texts as regular expressions, and the first
// match gives the reason.
func TestPatterns_AsRegexp(t *testing.T) {
	t.Parallel()
	atom := rapid.SampledFrom([]string{"a", "b", "ab", "Ab", "k", "é", "K", ".", "[ab]", "[^a]", "[a-z]", "\\d", "^", "$", "\\b", "(?i:aK)", "(?i:b)", "\xff"})
	var expression func(depth int) *rapid.Generator[string]
	expression = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			if depth == 0 {
				return atom.Draw(t, "atom")
			}
			x, y := expression(depth-1).Draw(t, "x"), expression(depth-1).Draw(t, "y")
			return fmt.Sprintf(rapid.SampledFrom([]string{"%[1]s%[2]s", "%[1]s%[2]s", "(%[1]s|%[2]s)", "(?:%[1]s)?%[2]s", "(%[1]s)+%[2]s", "(?:%[1]s)*%[2]s", "(?:%[1]s){2}", "(?i:%[1]s)%[2]s"}).Draw(t, "shape"), x, y)
		})
	}
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "A", "B", "k", "K", "\u212a", "é", "É", " ", "1", "\xff"}), 0, 12).Draw(t, "parts"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		var naive plain
		r := &patternReader{}
		for i, s := range rapid.SliceOfN(expression(3), 1, 5).Draw(t, "patterns") {
			re, err := regexp.Compile(s)
			if err != nil || re.MatchString("") {
				continue
			}
			r.add(0, "", &entry{Pattern: &s})
			if len(r.problems) > 0 {
				t.Fatal(r.problems)
			}
			naive = append(naive, re)
			r.p.all[len(naive)-1].class = fmt.Sprint(i)
		}
		r.p.texts = newAutomaton(r.texts)
		for _, s := range rapid.SliceOfN(text, 1, 20).Draw(t, "texts") {
			want := naive.match(s)
			got := r.p.match(s)
			if want < 0 && got != nil || want >= 0 && got != &r.p.all[want] {
				t.Fatalf("%q: %+v, want %d of %v (needed are %+v)", s, got, want, naive, r.texts)
			}
		}
	})
}

func TestAutomaton(t *testing.T) {
	t.Parallel()
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("abAB-")), 1, 5, -1)
	rapid.Check(t, func(t *rapid.T) {
		literals := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) literal {
			l := literal{text: letters.Draw(t, "text"), fold: rapid.Bool().Draw(t, "fold")}
			if l.fold {
				l.text = strings.ToLower(l.text)
			}
			return l
		}), 0, 20).Draw(t, "literals")
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abAB-x")), 0, 30, -1).Draw(t, "text")
		type hit struct{ literal, end int }
		got, want := map[hit]int{}, map[hit]int{}
		newAutomaton(literals).find(text, func(l, end int) bool {
			got[hit{l, end}]++
			return true
		})
		for i, l := range literals {
			for end := len(l.text); end <= len(text); end++ {
				if part := text[end-len(l.text) : end]; part == l.text || l.fold && strings.ToLower(part) == l.text {
					want[hit{i, end}]++
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v in %q: %v, want %v", literals, text, got, want)
		}
	})
}

func FuzzParsePatterns(f *testing.F) {
	for _, s := range []string{
		`[{"pattern": "Googlebot\\/", "tags": ["seo"]}]`, `[{"pattern": "[wW]get"}, {"pattern": "^(a|b)+c?$"}]`, `[]`, `[`, `[{}]`,
		`[{"pattern": "(?i)k\\b"}]`, `{"pattern": 1}`, "\ufeff[]", `[{"pattern": "\\pL{2,3}"}] x`, `[null]`, `[{"pattern": null}]`,
	} {
		f.Add([]byte(s), chrome)
	}
	f.Fuzz(func(t *testing.T, data []byte, userAgent string) {
		p, err := ParsePatterns("f", data)
		if err != nil {
			for _, problem := range configfile.Problems(err) {
				if problem.Message == "" {
					t.Errorf("a mistake without a word: %v", err)
				}
			}
			return
		}
		p.match(userAgent)
	})
}

// made returns n patterns like those of the public list. One in forty is more than
// a literal.
func made(tb testing.TB, n int) (*Patterns, plain) {
	r := rand.New(rand.NewPCG(1, 2))
	var json strings.Builder
	var res plain
	for i := range n {
		name := make([]byte, 6+r.IntN(8))
		for j := range name {
			name[j] = byte('a' + r.IntN(26))
		}
		name[0] -= 'a' - 'A'
		s := string(name) + "bot"
		if i%40 == 0 {
			s = "[" + string(name[1]) + "Q]" + string(name[2:]) + "[bB]ot"
		}
		if i > 0 {
			json.WriteByte(',')
		}
		fmt.Fprintf(&json, "{\"pattern\": %q}", s)
		res = append(res, regexp.MustCompile(s))
	}
	return patterns(tb, "["+json.String()+"]"), res
}

// BenchmarkPatterns compares an uncached classification without a file, with files, and
// with a loop over regular expressions instead of Patterns.
func BenchmarkPatterns(b *testing.B) {
	c := New(nil, 1)
	b.Run("none", func(b *testing.B) {
		for b.Loop() {
			c.judge(chrome, nil)
		}
	})
	for _, n := range []int{1500, 10_000} {
		p, naive := made(b, n)
		b.Run(fmt.Sprintf("%d/classification", n), func(b *testing.B) {
			for b.Loop() {
				c.judge(chrome, p)
			}
		})
		b.Run(fmt.Sprintf("%d/match", n), func(b *testing.B) {
			for b.Loop() {
				p.match(chrome)
			}
		})
		b.Run(fmt.Sprintf("%d/regexps", n), func(b *testing.B) {
			for b.Loop() {
				naive.match(chrome)
			}
		})
	}
}
