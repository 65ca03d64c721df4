package accesslog

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const combinedTime = "02/Jan/2006:15:04:05 -0700"

// parseCombined reads
//
//	host ident user [time] "method URL protocol" status size "referer" "agent"
//
// The common format ends after the size. A virtual host before the host
// (Apache's vhost_combined) and fields after the agent are skipped.
func parseCombined(line string) (e Entry, err error) {
	fields, rest, err := e.cutTime(line)
	if err != nil {
		return Entry{}, err
	}
	if e.IP, err = clientOf(fields); err != nil {
		return Entry{}, err
	}

	request, rest, closed := cutQuoted(rest)
	if !closed {
		return Entry{}, ErrFormat
	}
	method, uri, found := strings.Cut(request, " ")
	if i := strings.LastIndexByte(uri, ' '); i >= 0 && strings.HasPrefix(uri[i+1:], "HTTP/") {
		uri = uri[:i]
	}
	if !found || !isMethod(method) {
		return Entry{}, errors.New("the client sent no HTTP request")
	}
	e.Method = method
	if e.Path, err = pathOf(method, uri); err != nil {
		return Entry{}, err
	}

	status, rest, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	if e.Status, err = strconv.Atoi(status); err != nil || len(status) != 3 {
		return Entry{}, fmt.Errorf("status: %w", ErrFormat)
	}
	size, rest, _ := strings.Cut(rest, " ")
	if size != "-" && strings.Trim(size, "0123456789") != "" {
		return Entry{}, fmt.Errorf("size: %w", ErrFormat)
	}
	if rest = strings.TrimLeft(rest, " "); rest == "" {
		return e, nil
	}
	_, rest, closed = cutQuoted(rest) // the referer
	if !closed {
		return Entry{}, fmt.Errorf("referer: %w", ErrFormat)
	}
	rest = strings.TrimLeft(rest, " ")
	if !strings.HasPrefix(rest, `"`) {
		return Entry{}, fmt.Errorf("user agent: %w", ErrFormat)
	}
	// A truncated log, or an agent that ends in a backslash, may lack the last
	// quote: the rest of the agent is good enough.
	e.UserAgent, _, _ = cutQuoted(rest)
	if e.UserAgent == "-" {
		e.UserAgent = ""
	}
	e.KnowsUserAgent = true
	return e, nil
}

// cutTime finds the time in its brackets and returns the text before and after
// it. The user before it may contain any character.
func (e *Entry) cutTime(line string) (before, after string, err error) {
	for from := 0; ; {
		i := strings.Index(line[from:], " [")
		if i < 0 {
			return "", "", ErrFormat
		}
		open := from + i
		text, rest, found := strings.Cut(line[open+2:], "] ")
		if t, err := time.Parse(combinedTime, text); found && err == nil {
			e.Time, err = inRange(t)
			return line[:open], rest, err
		}
		from = open + 2
	}
}

func clientOf(fields string) (netip.Addr, error) {
	first, rest, _ := strings.Cut(fields, " ")
	if ip, err := netip.ParseAddr(first); err == nil {
		return ip, nil
	}
	second, rest, _ := strings.Cut(rest, " ")
	if ip, err := netip.ParseAddr(second); err == nil && rest != "" {
		return ip, nil
	}
	return netip.Addr{}, errors.New("the client is not an IP address: have the server log addresses, not names")
}

// isMethod reports whether s is a token that begins like a method: logs also
// contain the first bytes of traffic other than HTTP.
func isMethod(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

// cutQuoted splits s into the quoted text at its beginning and the rest. Without
// a closing quote, all of s is the text.
func cutQuoted(s string) (text, rest string, closed bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", s, false
	}
	s = s[1:]
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return unescape(s[:i]), s[i+1:], true
		}
	}
	return unescape(s), "", false
}

// unescape reverses the escapes of Apache (\" \\ \n \xhh) and nginx (\xhh). Other
// text stays as it is.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case '"', '\\':
			b.WriteByte(c)
		case 'b':
			b.WriteByte('\b')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'v':
			b.WriteByte('\v')
		case 'x':
			if i+2 < len(s) {
				if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
					b.WriteByte(byte(v))
					i += 2
					continue
				}
			}
			fallthrough
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String()
}
