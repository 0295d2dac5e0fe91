import sys
sys.path.insert(0,'/work/main/tests/git')
def test_x(repo):
    from expdb.git.snapshot import take_pin
    from expdb.git.worktree import find_worktree
    repo.git("config","filter.lfs.clean","cat"); repo.git("config","filter.lfs.smudge","cat"); repo.write(".gitattributes","*.bin filter=lfs\n"); repo.write("w.bin","secret one\n"); repo.commit("third")
    repo.git("config","filter.lfs.clean","false");repo.git("config","filter.lfs.required","true")
    repo.write("w.bin","secret two\n")
    print(take_pin(find_worktree(repo.top),store_root=repo.top/'runs'))
    assert 0
