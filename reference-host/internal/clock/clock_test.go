package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/clock"
)

func TestManualRingsInOrderOfTime(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	m := clock.NewManual(start)
	var rung []time.Duration
	for _, d := range []time.Duration{3, 1, 2} {
		m.AfterFunc(d*time.Second, func() { rung = append(rung, m.Now().Sub(start)) })
	}
	stop := m.AfterFunc(time.Second, func() { t.Error("stopped, and rang") })
	assert.True(t, stop())
	assert.False(t, stop())
	m.Advance(2 * time.Second)
	assert.Equal(t, []time.Duration{time.Second, 2 * time.Second}, rung)
	assert.Equal(t, 1, m.Pending())
	m.Advance(time.Hour)
	assert.Len(t, rung, 3)
	assert.Equal(t, start.Add(time.Hour+2*time.Second), m.Now())
}

func TestAnAlarmMaySetTheNext(t *testing.T) {
	t.Parallel()
	m := clock.NewManual(time.Unix(0, 0))
	count := 0
	var again func()
	again = func() { count++; m.AfterFunc(time.Second, again) }
	m.AfterFunc(time.Second, again)
	m.Advance(10 * time.Second)
	assert.Equal(t, 10, count)
}

func TestADueAlarmRingsAtOnce(t *testing.T) {
	t.Parallel()
	m := clock.NewManual(time.Unix(0, 0))
	passed, stop := clock.After(m, 0)
	<-passed
	assert.False(t, stop())
}

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.NoError(t, clock.Sleep(t.Context(), clock.Real{}, time.Hour))
		assert.Equal(t, time.Hour, time.Since(began))
		require.NoError(t, clock.Sleep(t.Context(), clock.Real{}, -1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, clock.Sleep(ctx, clock.Real{}, time.Hour), context.DeadlineExceeded)
		assert.Equal(t, time.Hour+time.Minute, time.Since(began))
	})
}
