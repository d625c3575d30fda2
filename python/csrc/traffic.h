// Counts of what goes to the card and comes back.
#pragma once

extern "C" {
// The next copy to the host is a number that a program asked for.
void spyre_note_read();
}
