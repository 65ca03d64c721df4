// Package plaincount counts an access log in the simplest code: it reads every line
// with one regular expression, keeps everything in maps, and sorts at the end.
// Tests compare Hotboard's boards with it. It shares no code with them, except for
// the package that tells bots from people.
package plaincount

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/hotboard/hotboard/ruleset/bots"
)

// Rules are the rules of Count, as YAML.
const Rules = `lists:
  - name: articles
    pages: ["/articles/{id}"]
  - name: posts
    pages:
      - /blog/geekery/{id}.html
      - /blog/geekery/{id}
      - /blog/{section}/{post}.html
      - /blog/{post}.html
    dedup: 1h
  - name: projects
    pages: ["/projects/{id}", "/projects/{id}/{page}.xhtml"]
    dedup: 1s
`

// dedup is the deduplication window of each list.
var dedup = map[string]time.Duration{
	"articles": 10 * time.Minute,
	"posts":    time.Hour,
	"projects": time.Second,
}

// Line is a request in the log.
type Line struct {
	IP, UserAgent string
	Time          time.Time // UTC
	Method, URI   string
	Status        int
}

// The last quote is missing where the User-Agent was cut off.
var lineFormat = regexp.MustCompile(`^(\S+) \S+ \S+ \[([^\]]+)\] "([A-Z]+) (\S+)[^"]*" (\d{3}) \S+ "[^"]*" "([^"]*)"?$`)

// Read returns the lines of a log in the combined format. It fails on the first
// unreadable one.
func Read(log io.Reader) ([]Line, error) {
	var lines []Line
	scan := bufio.NewScanner(log)
	for scan.Scan() {
		m := lineFormat.FindStringSubmatch(scan.Text())
		if m == nil {
			return nil, fmt.Errorf("line %d is not in the combined format", len(lines)+1)
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		status, err := strconv.Atoi(m[5])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, Line{IP: m[1], UserAgent: m[6], Time: at.UTC(), Method: m[3], URI: m[4], Status: status})
	}
	return lines, scan.Err()
}

// Row is one item of a board.
type Row struct {
	Rank           int
	ID             string
	Views, Uniques int
}

// Totals are the sums of a list.
type Totals struct {
	Views, Duplicates int
}

// Counts are the boards of every day, such as 2015-05-17, and list, and the totals
// of every list.
type Counts struct {
	Boards map[string]map[string][]Row
	Totals map[string]Totals
}

// Days returns the days that have a board, in order.
func (c *Counts) Days() []string {
	var days []string
	for day := range c.Boards {
		days = append(days, day)
	}
	sort.Strings(days)
	return days
}

// Lists are the names of the lists.
var Lists = []string{"articles", "posts", "projects"}

// Count counts the lines in their order.
func Count(lines []Line) *Counts {
	type visit struct{ list, item, ip, userAgent, day string }
	lastCounted := map[visit]time.Time{}
	views := map[string]int{}
	uniques := map[string]int{}
	c := &Counts{Boards: map[string]map[string][]Row{}, Totals: map[string]Totals{}}

	for _, l := range lines {
		list, item := itemOf(l.URI)
		if item == "" || l.Method != "GET" || l.Status != 200 && l.Status != 304 || isBot(l.UserAgent) {
			continue
		}
		day := l.Time.Format("2006-01-02")
		v := visit{list, item, household(l.IP), l.UserAgent, day}
		totals := c.Totals[list]
		last, again := lastCounted[v]
		if again && l.Time.Sub(last).Abs() < dedup[list] {
			totals.Duplicates++
			c.Totals[list] = totals
			continue
		}
		totals.Views++
		c.Totals[list] = totals
		if !again || l.Time.After(last) {
			lastCounted[v] = l.Time
		}
		key := day + " " + list + " " + item
		views[key]++
		if !again {
			uniques[key]++
		}
	}

	for key, n := range views {
		f := strings.SplitN(key, " ", 3)
		day, list, item := f[0], f[1], f[2]
		if c.Boards[day] == nil {
			c.Boards[day] = map[string][]Row{}
		}
		c.Boards[day][list] = append(c.Boards[day][list], Row{ID: item, Views: n, Uniques: uniques[key]})
	}
	for _, lists := range c.Boards {
		for _, rows := range lists {
			order(rows)
		}
	}
	return c
}

// household is a visitor's address; of an IPv6 address, the first half.
func household(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil || addr.Is4() {
		return ip
	}
	half, _ := addr.Prefix(64) // fails only for a prefix that is too long
	return half.String()
}

// order sorts rows by descending views and then by descending id; equal views share
// one rank.
func order(rows []Row) {
	sort.Slice(rows, func(i, j int) bool {
		if rows[i].Views != rows[j].Views {
			return rows[i].Views > rows[j].Views
		}
		return rows[i].ID > rows[j].ID
	})
	for i := range rows {
		rows[i].Rank = i + 1
		if i > 0 && rows[i].Views == rows[i-1].Views {
			rows[i].Rank = rows[i-1].Rank
		}
	}
}

var classifier = bots.New(nil, 1000)

func isBot(userAgent string) bool {
	return classifier.Classify(userAgent, netip.Addr{}).Bot
}

// itemOf returns the list and the item of a page's URI, or "".
func itemOf(uri string) (list, item string) {
	path, _, _ := strings.Cut(uri, "?")
	path, err := url.PathUnescape(path)
	if err != nil {
		return "", ""
	}
	p := strings.Split(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/")
	for _, part := range p {
		if part == "" {
			return "", ""
		}
	}
	html := func(s string) string {
		if name, ok := strings.CutSuffix(s, ".html"); ok {
			return name
		}
		return ""
	}
	switch {
	case len(p) == 2 && p[0] == "articles":
		return "articles", p[1]
	case len(p) == 2 && p[0] == "projects":
		return "projects", p[1]
	case len(p) == 3 && p[0] == "projects" && strings.HasSuffix(p[2], ".xhtml") && p[2] != ".xhtml":
		return "projects", p[1]
	case len(p) == 3 && p[0] == "blog" && p[1] == "geekery" && html(p[2]) != "":
		return "posts", html(p[2])
	case len(p) == 3 && p[0] == "blog" && p[1] == "geekery":
		return "posts", p[2]
	case len(p) == 3 && p[0] == "blog" && html(p[2]) != "":
		return "posts", p[1] + "/" + html(p[2])
	case len(p) == 2 && p[0] == "blog" && html(p[1]) != "":
		return "posts", html(p[1])
	}
	return "", ""
}
