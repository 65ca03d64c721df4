package ruleset

import (
	"testing"
	"time"
)

const rulesYAML = `
lists:
  - name: poll
    votes:
      options: [red, green]
      opens: 2026-11-20T09:00:00+01:00
      closes: "2026-11-27T09:00:00+01:00"
      require_user: true
    zone: Europe/Berlin
  - name: robots
limits:
  - name: person
    by: [user, channel]
    windows:
      - {max: 3, per: day}
      - max: 2
        per: 10s
        burst: 5
    when: {lists: [poll], channels: [letter, ""], devices: [mobile]}
    bonus: {letter: 2}
    shadow: true
  - {name: address, by: [ip], ipv4_prefix: 24, ipv6_prefix: 48, windows: [{max: 9, per: minute, calendar: true}]}
bots:
  file: bots.json
  allow: {user_agents: [Our Monitor], cidrs: [198.51.100.7]}
  deny: {cidrs: ["2001:db8::/32"]}
  count: [{list: robots, classes: [ai_crawler]}]
`

const rulesJSON = `{"lists": [
  {"name": "poll", "zone": "Europe/Berlin", "votes": {"options": ["red", "green"], "require_user": true,
   "opens": "2026-11-20T09:00:00+01:00", "closes": "2026-11-27T09:00:00+01:00"}},
  {"name": "robots"}],
 "limits": [
  {"name": "person", "by": ["user", "channel"], "windows": [{"max": 3, "per": "day"}, {"max": 2, "per": "10s", "burst": 5}],
   "when": {"lists": ["poll"], "channels": ["letter", ""], "devices": ["mobile"]}, "bonus": {"letter": 2}, "shadow": true},
  {"name": "address", "by": ["ip"], "ipv4_prefix": 24, "ipv6_prefix": 48, "windows": [{"max": 9, "per": "minute", "calendar": true}]}],
 "bots": {"file": "bots.json", "allow": {"user_agents": ["Our Monitor"], "cidrs": ["198.51.100.7"]}, "deny": {"cidrs": ["2001:db8::/32"]},
  "count": [{"list": "robots", "classes": ["ai_crawler"]}]}}`

func TestParseRules(t *testing.T) {
	t.Parallel()
	fromYAML, err := ParseYAML("rules.yaml", []byte(rulesYAML))
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, err := ParseYAML("rules.json", []byte(rulesJSON))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := toJSON(t, fromJSON), toJSON(t, fromYAML); got != want {
		t.Errorf("JSON gives\n%s\nYAML gives\n%s", got, want)
	}
	if v := fromYAML.List("poll").Votes; !v.Opens.Equal(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)) || v.Closes.Sub(v.Opens) != 7*24*time.Hour || !v.RequireUser {
		t.Errorf("%+v", v)
	}
	if l := fromYAML.Limit("person"); !l.Shadow || l.Windows[1].Burst != 5 || !l.Applies("poll", "", "mobile") || l.Applies("poll", "other", "mobile") || l.Max(&l.Windows[0], "letter") != 5 {
		t.Errorf("%s", toJSON(t, l))
	}
	if b := fromYAML.Bots; b.File != "bots.json" || len(b.Allow.Prefixes()) != 1 || fromYAML.CountBot("ai_crawler") != fromYAML.List("robots") {
		t.Errorf("%s", toJSON(t, b))
	}
}

// ParseYAML reports every mistake in votes, limits and bots, in the order of the
// file, each at its place.
func TestParseReportsEveryRule(t *testing.T) {
	t.Parallel()
	_, err := ParseYAML("rules.yaml", []byte(`lists:
  - name: poll
    pages: ["/p/{id}"]
    id: "{http.request.uri.query.id}"
    statuses: [200]
    content_types: [text/html]
    published_header: X-P
    votes:
      options: [yes-sir, 5, yes-sir, "*", ""]
      opens: tomorrow
      closes: 2026-11-20
      require_users: true
    dedup: 2d
  - name: late
    votes: {options: ["*"], opens: 2026-11-20T09:00:00Z, closes: 2026-11-20T10:00:00+01:00}
  - name: none
    votes: {}
limits:
  - name: Big Spender
    by: [ip, address, ip]
    ipv4_prefix: 33
    ipv6_prefix: -1
    windows:
      - {max: 0, per: minute}
      - {max: 1000000001, per: fortnight}
      - {max: 1, per: 61s, calendar: true}
      - {max: 1, per: second, calendar: true}
      - {max: 1, per: week, burst: 2}
      - {max: 1, per: second, burst: -2}
      - {max: 2, per: week}
      - {max: 1.5, per: day, each: user}
    when:
      lists: [poll, polls]
      devices: [mobile, phone]
      channels: [0123456789012345678901234567890123456789012345678901234567890123456789]
      countries: [de]
    bonus: {letter: 0, "": 1}
  - name: empty
  - null
  - name: empty
    by: [user]
    ipv4_prefix: 24
    windows: [{max: 1, per: day}]
bots:
  files: bots.json
  allow: {user_agents: [x], cidrs: [10.0.0.0/99]}
  count:
    - {list: robots}
    - {list: poll, classes: [robot]}
`))
	want := `rules.yaml:3:12: lists[0].pages: a poll has no pages: remove it
rules.yaml:4:9: lists[0].id: a poll has no pages: remove it
rules.yaml:5:15: lists[0].statuses: a poll has no pages: remove it
rules.yaml:6:20: lists[0].content_types: a poll has no pages: remove it
rules.yaml:7:23: lists[0].published_header: a poll has no pages: remove it
rules.yaml:9:26: lists[0].votes.options[1]: want a string, not a number: put it in quotes
rules.yaml:9:29: lists[0].votes.options[2]: duplicate "yes-sir"
rules.yaml:9:38: lists[0].votes.options[3]: "*" accepts any option: use it alone
rules.yaml:9:43: lists[0].votes.options[4]: "": an id has 1 to 256 bytes
rules.yaml:10:14: lists[0].votes.opens: "tomorrow" is not a time such as 2026-11-20T09:30:00Z or 2026-11-20T10:30:00+01:00
rules.yaml:11:15: lists[0].votes.closes: "2026-11-20" is not a time such as 2026-11-20T09:30:00Z or 2026-11-20T10:30:00+01:00
rules.yaml:12:7: lists[0].votes.require_users: unknown key; known here are closes, opens, options, require_user
rules.yaml:13:12: lists[0].dedup: 2d is not between 1ms and 24h
rules.yaml:15:66: lists[1].votes.closes: the poll closes before it opens
rules.yaml:17:12: lists[2].votes.options: missing: name the options, or "*" to accept any
rules.yaml:19:11: limits[0].name: invalid name "Big Spender": use 1 to 32 of a-z, 0-9, - and _
rules.yaml:20:14: limits[0].by[1]: "address" is not one of ip, user, visitor, channel, device and item
rules.yaml:20:23: limits[0].by[2]: duplicate ip
rules.yaml:21:18: limits[0].ipv4_prefix: 33 is not between 1 and 32
rules.yaml:22:18: limits[0].ipv6_prefix: -1 is not between 1 and 128
rules.yaml:24:15: limits[0].windows[0].max: 0 is not between 1 and 1000000000
rules.yaml:25:15: limits[0].windows[1].max: 1000000001 is not between 1 and 1000000000
rules.yaml:25:32: limits[0].windows[1].per: "fortnight" is not one of second, minute, hour, day, week, month and campaign, nor a duration of up to a minute such as 10s
rules.yaml:26:38: limits[0].windows[2].calendar: only for windows per minute: remove it
rules.yaml:27:41: limits[0].windows[3].calendar: only for windows per minute: remove it
rules.yaml:28:36: limits[0].windows[4].burst: a calendar window has no burst: remove it
rules.yaml:29:38: limits[0].windows[5].burst: -2 is not between 1 and 1000000000
rules.yaml:30:23: limits[0].windows[6].per: duplicate window per week: see windows[4]
rules.yaml:31:15: limits[0].windows[7].max: 1.5 is not a whole number
rules.yaml:31:30: limits[0].windows[7].each: unknown key; known here are burst, calendar, max, per
rules.yaml:33:21: limits[0].when.lists[1]: unknown list "polls"
rules.yaml:34:25: limits[0].when.devices[1]: "phone" is not one of desktop, mobile, tablet, tv and other
rules.yaml:35:18: limits[0].when.channels[0]: "0123456789012345678901234567890123456789012345678901234567890123456789" has more than 64 bytes
rules.yaml:36:7: limits[0].when.countries: unknown key; known here are channels, devices, lists
rules.yaml:37:12: limits[0].bonus: "": 1: a bonus must be 1 to 1000000000, for a channel of 1 to 64 bytes
rules.yaml:37:12: limits[0].bonus: "letter": 0: a bonus must be 1 to 1000000000, for a channel of 1 to 64 bytes
rules.yaml:38:5: limits[1].by: missing: name one or more of ip, user, visitor, channel, device and item
rules.yaml:38:5: limits[1].windows: missing: a limit needs at least one window, such as max 10 per minute
rules.yaml:39:5: limits[2]: empty: a limit needs name, by and windows
rules.yaml:40:11: limits[3].name: duplicate name "empty": limits[1] has it
rules.yaml:42:18: limits[3].ipv4_prefix: the limit does not count by ip: remove it
rules.yaml:45:3: bots.files: unknown key; known here are allow, count, deny, file
rules.yaml:46:25: bots.allow.user_agents[0]: "x" matches nearly every User-Agent: use a longer text
rules.yaml:46:37: bots.allow.cidrs[0]: "10.0.0.0/99" is not a range of addresses such as 192.0.2.0/24 or 2001:db8::/32
rules.yaml:48:14: bots.count[0].list: unknown list "robots"
rules.yaml:49:14: bots.count[1].list: list "poll" counts people: count bots on a list without pages, id and votes
rules.yaml:49:30: bots.count[1].classes[0]: "robot" is not one of ai_crawler, search_engine, seo_tool, feed_reader, http_library, monitor, headless_browser, link_preview, crawler, scanner, archiver, empty, denied and other`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
