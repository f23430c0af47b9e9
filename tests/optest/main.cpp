// The op table, every row × every check; `--op NAME` for one row.
#include "ops/optest.h"

int main(int argc, char** argv) { return mixtape::optest::run(argc, argv); }
