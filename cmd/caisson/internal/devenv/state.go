package devenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// stateFile is where a detached environment says what runs.
const stateFile = "state.json"

// ErrNotRunning says that a directory holds no environment.
var ErrNotRunning = errors.New("no environment is running there")

// State is what a detached environment consists of.
type State struct {
	Processes []*Process `json:"processes"`
	// Kubeconfigs are the admin kubeconfigs of the control planes, by name.
	Kubeconfigs map[string]string `json:"kubeconfigs"`
	// Registry is the host and port of the registry.
	Registry string `json:"registry,omitempty"`
}

// Load reads the state of the environment in a directory. It returns an error that Is
// ErrNotRunning if there is none.
func Load(dir string) (*State, error) {
	raw, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNotRunning)
	}
	if err == nil {
		err = owned(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	state := &State{}
	if err := json.Unmarshal(raw, state); err != nil {
		return nil, fmt.Errorf("read state %s: %w", filepath.Join(dir, stateFile), err)
	}
	return state, nil
}

// Stop ends every process and removes the directory: stage by stage from the highest, all
// processes of a stage at once.
func (s *State) Stop(dir string) error {
	stages := map[int][]*Process{}
	for _, p := range s.Processes {
		stages[p.Stage] = append(stages[p.Stage], p)
	}
	var errs []error
	for _, stage := range slices.Backward(slices.Sorted(maps.Keys(stages))) {
		errs = append(errs, stopAll(stages[stage]))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

func stopAll(processes []*Process) error {
	errs := make([]error, len(processes))
	var group sync.WaitGroup
	for i, p := range processes {
		group.Go(func() { errs[i] = p.Stop() })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (s *State) save(dir string) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, stateFile), raw, 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}
