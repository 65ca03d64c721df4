// Package currentlog provides loggers for parts that outlive a configuration. A
// logger that Caddy gives to a module belongs to its configuration: after a
// reload it may write to a closed file, and the operator would lose its messages.
package currentlog

import (
	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger returns a named logger that always writes to the default log of the
// configuration in force.
func Logger(name string) *zap.Logger { return zap.New(core{}).Named(name) }

type core struct{ fields []zapcore.Field }

func (c core) current() zapcore.Core { return caddy.Log().Core() }

// Enabled implements [zapcore.LevelEnabler].
func (c core) Enabled(l zapcore.Level) bool { return c.current().Enabled(l) }

// With implements [zapcore.Core].
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check implements [zapcore.Core]. It adds the core of the configuration in
// force, which may filter by the logger's name.
func (c core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return c.current().With(c.fields).Check(e, ce)
}

// Write implements [zapcore.Core].
func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return c.current().With(c.fields).Write(e, fields)
}

// Sync implements [zapcore.Core].
func (c core) Sync() error { return c.current().Sync() }
